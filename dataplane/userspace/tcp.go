package userspace

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// connectWithin bounds the wait for an endpoint, as long as a client that met a
// kernel's rules would wait for its fifth SYN.
const connectWithin = 31 * time.Second

// pause is the wait after the kernel would not give a connection for want of
// memory or descriptors that the rest of the program holds.
const pause = 50 * time.Millisecond

// serveTCP accepts connections while there is room for them; beyond, they wait in
// the kernel.
func (p *proxy) serveTCP(taking, forwarding context.Context, ln *net.TCPListener, fromNode bool) {
	for {
		if p.room.Acquire(taking, perConnection) != nil {
			return // only when taking is over
		}
		conn, err := ln.AcceptTCP()
		if err == nil {
			p.connection(1)
			p.sessions.Go(func() {
				defer p.room.Release(perConnection)
				defer p.connection(-1)
				p.session(forwarding, conn, fromNode)
			})
			continue
		}
		p.room.Release(perConnection)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		p.log.Error("connection not accepted", "err", err)
		select {
		case <-taking.Done():
		case <-time.After(pause):
		}
	}
}

// connection counts one that begins or ends.
func (p *proxy) connection(n int64) {
	p.journal.tcp.Add(n)
	p.stats.connections.Add(n)
	if n > 0 {
		p.stats.accepted.Add(n)
	}
}

// session is one connection from beginning to end. Accepted sockets have the
// address that the client meant as their own.
func (p *proxy) session(ctx context.Context, client *net.TCPConn, fromNode bool) {
	src := unmapped(client.RemoteAddr().(*net.TCPAddr).AddrPort())
	at := unmapped(client.LocalAddr().(*net.TCPAddr).AddrPort())
	to, ok := p.route(packet(objects.TCP, src, at, fromNode))
	if !ok {
		p.stats.late.Add(1)
		reset(client)
		return
	}
	server, err := p.space.dialTCP(ctx, sourceFor(to, src), addrPort(to.Endpoint), connectWithin)
	if ctx.Err() != nil {
		p.stats.cutConnections.Add(1)
		reset(client)
		if err == nil {
			reset(server)
		}
		return
	}
	if err != nil {
		p.stats.unreachable.Add(1)
		p.log.Debug("endpoint not reached", "frontend", at, "endpoint", addrPort(to.Endpoint), "client", src, "err", err)
		reset(client)
		return
	}
	if cut := relay(ctx, client, server); cut {
		p.stats.cutConnections.Add(1)
	}
}

// relay carries data both ways until both have ended, each by itself: a side that
// says it has sent everything may still receive. A reset on one side is one on
// the other, and so is the end of ctx; cut tells that it was that.
func relay(ctx context.Context, a, b *net.TCPConn) (cut bool) {
	for _, c := range []*net.TCPConn{a, b} {
		// A peer that vanished is found after the system's time, two hours; an idle
		// one is never given up.
		_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: -1, Interval: -1, Count: -1})
	}
	stop := context.AfterFunc(ctx, func() { reset(a); reset(b) })
	var back sync.WaitGroup
	back.Go(func() { carry(a, b) })
	carry(b, a)
	back.Wait()
	cut = !stop()
	_ = a.Close()
	_ = b.Close()
	return cut
}

func carry(to, from *net.TCPConn) {
	_, err := io.Copy(to, from) // by splice
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		reset(to)
		reset(from)
	}
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
