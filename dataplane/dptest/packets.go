//go:build linux

package dptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// silence is how long nothing must come back for a packet to count as dropped.
// It is under TCP's first retransmission, so one SYN is what is judged.
const silence = 300 * time.Millisecond

// tries bounds the connections made to see every one of n random destinations:
// the chance to miss one of 4 in 100 tries is under 1e-11.
func tries(n int) int {
	if n == 1 {
		return 3
	}
	return 25 * n
}

// servers answer at every address that a case's packets may reach, with their own
// address and the client's, and close.
type servers struct {
	closers []io.Closer
	serving sync.WaitGroup
}

func (s *servers) Close() {
	for _, c := range s.closers {
		_ = c.Close()
	}
	s.serving.Wait()
}

// serve starts the servers of some rows: at their destinations and, for rows
// that pass, at the very address they go to.
func (n *Net) serve(ctx context.Context, rows []Row) (*servers, error) {
	s := &servers{}
	done := map[string]bool{}
	for _, r := range rows {
		at := []netip.AddrPort{}
		for _, d := range r.Dests {
			at = append(at, d.At)
		}
		if r.Action == "" {
			at = append(at, r.To)
		}
		for _, a := range at {
			key := r.Proto.String() + a.String()
			if done[key] {
				continue
			}
			done[key] = true
			if err := n.Home(a.Addr()).Do(func() error { return s.listen(ctx, r.Proto, a) }); err != nil {
				s.Close()
				return nil, fmt.Errorf("serve %s %s: %w", r.Proto, a, err)
			}
		}
	}
	return s, nil
}

func network(p objects.Protocol, a netip.Addr) string {
	if a.Is6() {
		return p.String() + "6"
	}
	return p.String() + "4"
}

func (s *servers) listen(ctx context.Context, p objects.Protocol, at netip.AddrPort) error {
	var lc net.ListenConfig
	if p == objects.UDP {
		conn, err := lc.ListenPacket(ctx, network(p, at.Addr()), at.String())
		if err != nil {
			return err
		}
		s.closers = append(s.closers, conn)
		s.serving.Go(func() { answerPackets(conn, at) })
		return nil
	}
	ln, err := lc.Listen(ctx, network(p, at.Addr()), at.String())
	if err != nil {
		return err
	}
	s.closers = append(s.closers, ln)
	s.serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "%s %s", at, conn.RemoteAddr())
			_ = conn.Close()
		}
	})
	return nil
}

func answerPackets(conn net.PacketConn, at netip.AddrPort) {
	buf := make([]byte, 64)
	for {
		_, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = conn.WriteTo(fmt.Appendf(nil, "%s %s", at, from), from)
		}
	}
}

// answer is what came of one connection.
type answer struct {
	action plan.Action // Forward for any answer
	server netip.AddrPort
	client netip.Addr // as the server saw it
}

// knock makes one connection from a place.
func (n *Net) knock(ctx context.Context, r Row) (answer, error) {
	var out answer
	err := n.places[r.From].Do(func() error {
		var err error
		out, err = connect(ctx, r)
		return err
	})
	return out, err
}

func connect(ctx context.Context, r Row) (answer, error) {
	d := net.Dialer{Timeout: silence}
	if r.From == Remote { // its address is not the link's
		src := Remote.Addrs()[0]
		if r.To.Addr().Is6() {
			src = Remote.Addrs()[1]
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(src, 0))
		if r.Proto == objects.UDP {
			d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0))
		}
	}
	conn, err := d.DialContext(ctx, network(r.Proto, r.To.Addr()), r.To.String())
	if err != nil {
		return classify(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(silence)); err != nil {
		return answer{}, err
	}
	if r.Proto == objects.UDP {
		// A packet that is dropped or rejected on its way out of the node itself
		// is not permitted; which of the two it was, reading tells.
		if _, err := conn.Write([]byte("who")); err != nil && !errors.Is(err, syscall.EPERM) {
			return classify(err)
		}
	}
	buf := make([]byte, 256)
	k, err := conn.Read(buf)
	if err != nil {
		return classify(err)
	}
	return parseAnswer(string(buf[:k]))
}

func parseAnswer(text string) (answer, error) {
	server, client, ok := strings.Cut(text, " ")
	at, err := netip.ParseAddrPort(server)
	from, err2 := netip.ParseAddrPort(client)
	if !ok || err != nil || err2 != nil {
		return answer{}, fmt.Errorf("answer %q is not a server's", text)
	}
	return answer{plan.Forward, at, from.Addr().Unmap()}, nil
}

func classify(err error) (answer, error) {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer{action: plan.Reject}, nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return answer{action: plan.Drop}, nil
	}
	return answer{}, err
}

// Observe knocks until every destination of the row has been seen, or the tries
// are used up, and returns what was seen in the row's form. A destination that
// is seen both with and without the node's address appears twice.
func (n *Net) Observe(ctx context.Context, r Row) (Row, error) {
	got := Row{Line: r.Line, From: r.From, Proto: r.Proto, To: r.To}
	for i := range tries(max(1, len(r.Dests))) {
		a, err := n.knock(ctx, r)
		if err != nil {
			return got, fmt.Errorf("%s: %w", r.Line, err)
		}
		action := a.action
		if action == plan.Forward && a.server == r.To {
			action = "" // it arrived where it was sent to
		}
		if i > 0 && action != got.Action {
			return got, fmt.Errorf("%s: first %q, then %q", r.Line, got.Action, action)
		}
		got.Action = action
		if action != plan.Forward {
			break
		}
		got.note(n.dest(a, r))
		if slices.Equal(got.Dests, r.Dests) && len(r.Dests) > 1 {
			break
		}
	}
	return got, nil
}

func (r *Row) note(d Dest) {
	if !slices.Contains(r.Dests, d) {
		r.Dests = append(r.Dests, d)
		sortDests(r.Dests)
	}
}

// dest tells whether the source was replaced. From the node itself that cannot
// be seen, so what the row says holds.
func (n *Net) dest(a answer, r Row) Dest {
	d := Dest{At: a.server, Masked: n.node[a.client]}
	if r.From == Self && d.Masked {
		for _, want := range r.Dests {
			if want.At == d.At {
				d.Masked = want.Masked
			}
		}
	}
	return d
}
