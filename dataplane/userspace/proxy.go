package userspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// proxy is the part that forwards: the listeners and what came of them.
type proxy struct {
	cfg      Config
	log      *slog.Logger
	index    *index
	affinity affinity
	journal  *journal
	room     *semaphore.Weighted // file descriptors
	buffers  sync.Pool           // of *[]byte, the largest datagram
	flows    flows
	stats    *counters

	// Const after start.
	space     *space
	at        map[bool]ports // by family, IPv6 or not
	closers   []io.Closer
	stop      context.CancelFunc // take nothing new
	cut       context.CancelFunc // end what there is
	listening sync.WaitGroup
	sessions  sync.WaitGroup
	flowing   sync.WaitGroup
}

// Stats is what the proxy has done since it began.
type Stats struct {
	Connections int64 // TCP, open now
	Flows       int64 // UDP, remembered now
	Accepted    int64 // TCP connections
	Begun       int64 // UDP flows
	Unreachable int64 // endpoints that refused or did not answer; the client was reset
	Late        int64 // accepted, and refused by a plan that was newer than the rules
	Turned      int64 // datagrams dropped for want of file descriptors or a usable address
	// What ended with the previous process, which could not say so.
	LostConnections int64
	LostFlows       int64
	// What Close ended.
	CutConnections int64
	CutFlows       int64
}

type counters struct {
	connections, flows, accepted, begun, unreachable, late, turned atomic.Int64
	lostConnections, lostFlows, cutConnections, cutFlows           atomic.Int64
}

func (c *counters) read() Stats {
	return Stats{
		Connections: c.connections.Load(), Flows: c.flows.Load(), Accepted: c.accepted.Load(), Begun: c.begun.Load(),
		Unreachable: c.unreachable.Load(), Late: c.late.Load(), Turned: c.turned.Load(),
		LostConnections: c.lostConnections.Load(), LostFlows: c.lostFlows.Load(),
		CutConnections: c.cutConnections.Load(), CutFlows: c.cutFlows.Load(),
	}
}

// File descriptors: two sockets each, and a TCP connection has a pipe for each
// direction while data moves. Some are left to the rest of the program.
const (
	perConnection = 6
	perFlow       = 2
	spare         = 128
)

func newProxy(cfg Config, stats *counters) (*proxy, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("read the limit of file descriptors: %w", err)
	}
	if limit.Cur < spare+perConnection {
		return nil, fmt.Errorf("the limit of file descriptors (RLIMIT_NOFILE) is %d, too low to forward anything", limit.Cur)
	}
	p := &proxy{cfg: cfg, log: cfg.Logger, index: newIndex(), stats: stats, room: semaphore.NewWeighted(int64(limit.Cur - spare)), at: map[bool]ports{}}
	p.buffers.New = func() any { b := make([]byte, 1<<16); return &b }
	p.flows.all, p.flows.warned = map[flowKey]*flow{}, map[warning]bool{}
	return p, nil
}

// start opens the listeners and serves until Close. It returns the families that
// the namespace has; IPv4 is always one.
func (p *proxy) start(ctx context.Context) (served []family, err error) {
	ctx = context.WithoutCancel(ctx)
	taking, stop := context.WithCancel(ctx)
	forwarding, cut := context.WithCancel(ctx)
	p.stop, p.cut = stop, cut
	for _, f := range families() {
		err := p.space.do(f.enabled)
		if err == nil {
			err = p.listen(taking, forwarding, f)
		}
		if f.v6 && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
			p.log.Warn("IPv6 is not available, its frontends are not served", "err", err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listen for %s: %w", f.text, err)
		}
		served = append(served, f)
	}
	return served, nil
}

// listen opens the four listeners of a family: for TCP and UDP, from elsewhere
// and from the node itself.
func (p *proxy) listen(taking, forwarding context.Context, f family) error {
	var at ports
	for _, l := range []struct {
		kind     int
		port     *uint16
		fromNode bool
	}{
		{unix.SOCK_STREAM, &at.tcp, false}, {unix.SOCK_STREAM, &at.nodeTCP, true},
		{unix.SOCK_DGRAM, &at.udp, false}, {unix.SOCK_DGRAM, &at.nodeUDP, true},
	} {
		file, port, err := p.space.listener(f, l.kind)
		if err != nil {
			return err
		}
		*l.port = port
		if has := queueOf(file); l.kind == unix.SOCK_DGRAM && has < burst {
			p.log.Warn("the queue for datagrams is short (net.core.rmem_max): a burst of them may be lost", "family", f.text, "bytes", has)
		}
		if err := p.serve(taking, forwarding, file, l.kind, l.fromNode); err != nil {
			return err
		}
	}
	p.at[f.v6] = at
	return nil
}

func (p *proxy) serve(taking, forwarding context.Context, file *os.File, kind int, fromNode bool) error {
	defer file.Close()
	if kind == unix.SOCK_STREAM {
		ln, err := net.FileListener(file)
		if err != nil {
			return err
		}
		p.closers = append(p.closers, ln)
		p.listening.Go(func() { p.serveTCP(taking, forwarding, ln.(*net.TCPListener), fromNode) })
		return nil
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, conn)
	p.listening.Go(func() { p.serveUDP(conn.(*net.UDPConn), fromNode) })
	return nil
}

func (p *proxy) ports(f family) ports { return p.at[f.v6] }

// Close takes no new connections, leaves the ones there are for as long as the
// configuration says, and ends what is left then, with a reset, so that nobody
// takes the end for a complete answer.
func (p *proxy) Close() {
	if p.stop != nil {
		p.stop()
	}
	for _, c := range p.closers {
		_ = c.Close()
	}
	p.listening.Wait()
	drained := make(chan struct{})
	go func() { p.sessions.Wait(); close(drained) }()
	patience := time.NewTimer(p.cfg.Drain)
	defer patience.Stop()
	select {
	case <-drained:
	case <-patience.C:
	}
	if p.cut != nil {
		p.cut()
	}
	<-drained
	p.stats.cutFlows.Store(int64(p.closeFlows()))
	p.space.Close()
}

// route says where a packet's connection goes; ok is false if nowhere.
func (p *proxy) route(pkt plan.Packet) (to plan.Destination, ok bool) {
	if p.index.getNode().LocalLink != "" && !pkt.FromNode {
		pkt.In = p.cameBy(pkt.Src)
	}
	out := p.index.Resolve(pkt)
	if out.Action != plan.Forward {
		return plan.Destination{}, false
	}
	return p.affinity.choose(pkt.Src, out, time.Now()), true
}

// cameBy is the link by which a source is reached: a socket does not tell by which one came
// what it takes in.
func (p *proxy) cameBy(src netip.Addr) (name string) {
	err := p.space.do(func() error {
		routes, err := netlink.RouteGet(src.AsSlice())
		if err != nil || len(routes) == 0 {
			return err
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err == nil {
			name = link.Attrs().Name
		}
		return err
	})
	if err != nil {
		p.log.Debug("no link to a client", "client", src, "err", err)
	}
	return name
}

func packet(proto objects.Protocol, client, at netip.AddrPort, fromNode bool) plan.Packet {
	return plan.Packet{Src: client.Addr(), Dst: at.Addr(), Protocol: proto, Port: at.Port(), FromNode: fromNode}
}

// sourceFor is the address to connect from: the client's, or invalid for any of
// the node's.
func sourceFor(d plan.Destination, client netip.AddrPort) netip.Addr {
	if d.Masquerade {
		return netip.Addr{}
	}
	return client.Addr()
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
