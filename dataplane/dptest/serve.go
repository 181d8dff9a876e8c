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

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

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
func (n *Net) Serve(ctx context.Context, rows []Row) (*Servers, error) {
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
			if err := n.bind(ctx, a.Addr(), func() error { return s.listen(n, r.Proto, a) }); err != nil {
				s.Close()
				return nil, fmt.Errorf("serve %s %s: %w", r.Proto, a, err)
			}
		}
	}
	return s, nil
}

// bind listens at an address where that lives, as soon as it is free: a child of ours that
// is being started, as for iptables, has a copy of every socket, also of one that is closed
// meanwhile, until its execve closes them, which is after the parent goes on.
func (n *Net) bind(ctx context.Context, a netip.Addr, listen func() error) error {
	return n.Home(a).Do(func() (err error) {
		late := await(ctx, "still in use", func() bool {
			err = listen()
			return !errors.Is(err, unix.EADDRINUSE)
		})
		return errors.Join(err, late)
	})
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
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	w := &packetServer{conn: conn, raw: raw, at: at, answer: answerAfter(n.think)}
	if p == objects.SCTP {
		w.answer = n.inits.answer
	}
	n.serving.Store(w, nil)
	s.serving.Go(func() {
		defer n.serving.Delete(w)
		w.run()
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

// packetServer answers packets, each with its queue locked from before it leaves
// the queue until its answer is sent: who holds the lock and sees nothing in the
// queue knows that all has been answered.
type packetServer struct {
	conn   net.PacketConn
	raw    syscall.RawConn
	at     netip.AddrPort
	answer func(packet []byte, from net.Addr, at netip.AddrPort) []byte // nil: none
	queue  sync.Mutex
}

func (w *packetServer) run() {
	for w.raw.Read(waiting) == nil {
		w.next()
	}
}

// waiting is for RawConn. What poll tells of has a good checksum (udp_poll), so
// that reading it will not wait.
func waiting(fd uintptr) bool { return ready(int(fd), unix.POLLIN) }

func (w *packetServer) next() {
	w.queue.Lock()
	defer w.queue.Unlock()
	buf := make([]byte, 256)
	k, from, err := w.conn.ReadFrom(buf)
	if err != nil {
		return
	}
	if out := w.answer(buf[:k], from, w.at); out != nil {
		_, _ = w.conn.WriteTo(out, from)
	}
}

// idle tells whether all that has arrived is answered; a closed server is.
func (w *packetServer) idle() bool {
	w.queue.Lock()
	defer w.queue.Unlock()
	busy := false
	_ = w.raw.Control(func(fd uintptr) { busy = waiting(fd) })
	return !busy
}

// idle waits until every server of packets has answered what had arrived, and no program of the node
// has a packet that it has not read: a proxy may take its time as a server may.
func (n *Net) idle(ctx context.Context) (err error) {
	n.serving.Range(func(w, _ any) bool {
		err = await(ctx, "a server has not answered", w.(*packetServer).idle)
		return err == nil
	})
	if err != nil {
		return err
	}
	var failed error
	err = await(ctx, "a program of the node has not read what it got", func() (read bool) {
		read, failed = n.read()
		return read || failed != nil
	})
	return errors.Join(failed, err)
}

// read tells whether no UDP socket of the node has a packet waiting.
func (n *Net) read() (bool, error) {
	var waits bool
	err := n.Node.Do(func() error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			all, err := netlink.SocketDiagUDP(family)
			if errors.Is(err, netlink.ErrDumpInterrupted) { // they came and went meanwhile
				waits, err = true, nil
			}
			if err != nil {
				return fmt.Errorf("list the node's UDP sockets: %w", err)
			}
			waits = waits || slices.ContainsFunc(all, func(s *netlink.Socket) bool { return s.RQueue > 0 })
		}
		return nil
	})
	return !waits, err
}

func answerAfter(think time.Duration) func([]byte, net.Addr, netip.AddrPort) []byte {
	return func(_ []byte, from net.Addr, at netip.AddrPort) []byte {
		time.Sleep(think)
		return fmt.Appendf(nil, "%s %s", at, from)
	}
}

func parseAnswer(text string) (answer, error) {
	server, client, ok := strings.Cut(text, " ")
	at, err := netip.ParseAddrPort(server)
	from, err2 := netip.ParseAddrPort(client)
	if !ok || err != nil || err2 != nil {
		return answer{}, fmt.Errorf("answer %q is not a server's", text)
	}
	return answer{action: reachedServer, server: at, client: from.Addr().Unmap()}, nil
}
