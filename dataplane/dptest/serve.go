//go:build linux

package dptest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Servers answer at every address that some packets may reach, with their own
// address and the client's, and close.
type Servers struct {
	closers []io.Closer
	serving sync.WaitGroup
}

// Close ends them and waits until they have ended.
func (s *Servers) Close() {
	for _, c := range s.closers {
		_ = c.Close()
	}
	s.serving.Wait()
}

// Serve starts the servers of some rows: at their destinations and, for rows
// that pass, at the very address they go to.
func (n *Net) Serve(rows []Row) (*Servers, error) {
	s := &Servers{}
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
			if err := n.Home(a.Addr()).Do(func() error { return s.listen(n, r.Proto, a) }); err != nil {
				s.Close()
				return nil, fmt.Errorf("serve %s %s: %w", r.Proto, a, err)
			}
		}
	}
	return s, nil
}

// network is the name that package net has for a protocol.
func network(p objects.Protocol, a netip.Addr) string {
	name := p.String()
	if p == objects.SCTP {
		name = "ip"
	}
	if a.Is6() {
		name += "6"
	} else {
		name += "4"
	}
	if p == objects.SCTP {
		name += ":132"
	}
	return name
}

func (s *Servers) listen(n *Net, p objects.Protocol, at netip.AddrPort) error {
	if p == objects.TCP {
		ln, err := net.Listen(network(p, at.Addr()), at.String())
		if err != nil {
			return err
		}
		s.closers = append(s.closers, ln)
		s.serving.Go(func() { answerConnections(ln, at) })
		return nil
	}
	where := at.String()
	if p == objects.SCTP {
		where = at.Addr().String()
	}
	conn, err := net.ListenPacket(network(p, at.Addr()), where)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, conn)
	s.serving.Go(func() {
		if p == objects.SCTP {
			n.inits.answer(conn, at)
			return
		}
		n.answerPackets(conn, at)
	})
	return nil
}

func answerConnections(ln net.Listener, at netip.AddrPort) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(conn, "%s %s", at, conn.RemoteAddr())
		_ = conn.Close()
	}
}

func (n *Net) answerPackets(conn net.PacketConn, at netip.AddrPort) {
	buf := make([]byte, 64)
	for {
		_, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			time.Sleep(n.think)
			_, _ = conn.WriteTo(fmt.Appendf(nil, "%s %s", at, from), from)
		}
	}
}

func parseAnswer(text string) (answer, error) {
	server, client, ok := strings.Cut(text, " ")
	at, err := netip.ParseAddrPort(server)
	from, err2 := netip.ParseAddrPort(client)
	if !ok || err != nil || err2 != nil {
		return answer{}, fmt.Errorf("answer %q is not a server's", text)
	}
	return answer{reachedServer, at, from.Addr().Unmap()}, nil
}
