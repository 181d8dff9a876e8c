package userspace

import (
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// flows are the UDP flows. The first datagram of one comes to a listener; then
// the flow has a socket that the kernel gives the next ones to.
type flows struct {
	mu     sync.Mutex
	all    map[flowKey]*flow // guarded by mu
	closed bool              // guarded by mu; no flow may begin any more
	warned map[warning]bool  // guarded by mu; said once, until the frontend changes
}

// warning is why flows to a frontend do not begin.
type warning struct {
	at  netip.AddrPort
	why string
}

type flowKey struct {
	client, at netip.AddrPort
	fromNode   bool
}

func (k flowKey) packet() plan.Packet { return packet(objects.UDP, k.client, k.at, k.fromNode) }

type flow struct {
	key     flowKey
	to      plan.Endpoint
	client  *net.UDPConn // to the client, from the address that it sent to
	server  *net.UDPConn
	last    atomic.Int64 // when a datagram went either way, since began
	began   time.Time
	replied atomic.Bool
}

// Conntrack's times (nf_conntrack_udp_timeout, nf_conntrack_udp_timeout_stream).
const (
	unrepliedFor = 30 * time.Second
	repliedFor   = 120 * time.Second
)

func (p *proxy) serveUDP(conn *net.UDPConn, fromNode bool) {
	buf, oob := make([]byte, 1<<16), make([]byte, 256)
	for {
		n, k, _, from, err := conn.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.log.Error("datagram not received", "err", err)
			continue
		}
		at, ok := originalDst(oob[:k])
		if !ok {
			p.stats.turned.Add(1)
			continue
		}
		p.datagram(flowKey{unmapped(from), at, fromNode}, buf[:n])
	}
}

// originalDst is where a datagram was sent to.
func originalDst(oob []byte) (netip.AddrPort, bool) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for _, m := range msgs {
		switch a, _ := unix.ParseOrigDstAddr(&m); a := a.(type) {
		case *unix.SockaddrInet4:
			return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), true
		case *unix.SockaddrInet6:
			return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)), true
		}
	}
	return netip.AddrPort{}, false
}

// datagram forwards one that came to a listener: the first of a flow, or one that
// was on its way while the flow got its socket. Where the endpoint has refused an
// earlier one, there is a new choice.
func (p *proxy) datagram(key flowKey, payload []byte) {
	p.flows.mu.Lock()
	defer p.flows.mu.Unlock()
	if f := p.flows.all[key]; f != nil {
		if p.sendNow(f, payload) {
			return
		}
		p.endLocked(f)
	}
	if f := p.newFlow(key); f == nil || !p.sendNow(f, payload) {
		p.stats.turned.Add(1)
	}
}

// newFlow is nil when there is nowhere to go. It is called with the flows locked,
// so that a change of plan comes either before its choice or sees the flow.
func (p *proxy) newFlow(key flowKey) *flow {
	if p.flows.closed {
		return nil
	}
	to, ok := p.route(key.packet())
	if !ok {
		return nil
	}
	if !p.room.TryAcquire(perFlow) {
		p.notBegun(key, to.Endpoint, errors.New("no file descriptors are left (RLIMIT_NOFILE)"))
		return nil
	}
	f := &flow{key: key, to: to.Endpoint, began: time.Now()}
	if err := p.open(f, to); err != nil {
		p.room.Release(perFlow)
		p.notBegun(key, to.Endpoint, err)
		return nil
	}
	p.flows.all[key] = f
	p.journal.udp.Add(1)
	p.stats.flows.Add(1)
	p.stats.begun.Add(1)
	p.flowing.Go(func() { p.requests(f) })
	p.flowing.Go(func() { p.answers(f) })
	return f
}

// notBegun says so once for each frontend and reason.
func (p *proxy) notBegun(key flowKey, to plan.Endpoint, err error) {
	if w := (warning{key.at, err.Error()}); !p.flows.warned[w] {
		p.flows.warned[w] = true
		p.log.Warn("UDP flow not begun", "frontend", key.at, "client", key.client, "endpoint", addrPort(to), "err", err)
	}
}

func (p *proxy) open(f *flow, to plan.Destination) (err error) {
	if f.server, err = p.space.dialUDP(sourceFor(to, f.key.client), addrPort(to.Endpoint)); err != nil {
		return err
	}
	if f.client, err = p.space.answerUDP(f.key.at, f.key.client); err != nil {
		_ = f.server.Close()
	}
	return err
}

// send is false if the datagram was not sent because the endpoint had refused an
// earlier one. Other losses are those of a network.
func (p *proxy) send(f *flow, payload []byte) bool {
	f.last.Store(int64(time.Since(f.began)))
	_, err := f.server.Write(payload)
	return !errors.Is(err, unix.ECONNREFUSED)
}

// sendNow is send where nobody may wait: with the flows locked, and for the listener that all new flows come
// by. A datagram that the socket has no room for is lost, as by a full queue. It does not write by the
// connection, for in that the flow's own goroutine may be waiting.
func (p *proxy) sendNow(f *flow, payload []byte) bool {
	f.last.Store(int64(time.Since(f.began)))
	raw, err := f.server.SyscallConn()
	if err != nil {
		return true
	}
	_ = raw.Control(func(fd uintptr) { // fails only on a closed socket
		_, err = ignoringEINTR(func() (int, error) { return 0, unix.Send(int(fd), payload, unix.MSG_DONTWAIT) })
	})
	return !errors.Is(err, unix.ECONNREFUSED)
}

// requests forwards what the client sends. A client that refuses answers is gone.
//
// The socket may be given a datagram of another client: tproxy looks for a socket
// and then whether that is connected, and between the two this one was (Linux
// nf_tproxy_get_sock_v4). Such a datagram goes where it would have gone.
func (p *proxy) requests(f *flow) {
	defer p.end(f)
	for {
		buf, n, from, err := p.receive(f.client)
		if err != nil {
			return
		}
		if from.client != f.key.client {
			p.datagram(flowKey{from.client, f.key.at, from.fromNode}, (*buf)[:n])
			p.buffers.Put(buf)
			continue
		}
		sent := p.send(f, (*buf)[:n])
		if !sent {
			p.end(f)
			p.datagram(f.key, (*buf)[:n])
		}
		p.buffers.Put(buf)
		if !sent {
			return
		}
	}
}

// answers forwards what the endpoint sends, and ends the flow when it refuses or
// nothing was sent either way for long enough.
func (p *proxy) answers(f *flow) {
	defer p.end(f)
	for {
		patience := p.cfg.UDPUnreplied
		if f.replied.Load() {
			patience = p.cfg.UDPReplied
		}
		last := time.Duration(f.last.Load())
		if time.Since(f.began)-last >= patience || f.server.SetReadDeadline(f.began.Add(last+patience)) != nil {
			return
		}
		buf, n, _, err := p.receive(f.server)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue // there may have been requests since
		}
		if err != nil {
			return
		}
		f.replied.Store(true)
		f.last.Store(int64(time.Since(f.began)))
		_, _ = f.client.Write((*buf)[:n])
		p.buffers.Put(buf)
	}
}

// receive waits for one datagram, and tells whose it is. A buffer is only taken
// once there is one, for many flows are idle; the caller gives it back.
func (p *proxy) receive(conn *net.UDPConn) (buf *[]byte, n int, from sender, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, 0, sender{}, err
	}
	var failed error
	oob := make([]byte, 64)
	err = raw.Read(func(fd uintptr) (done bool) {
		buf = p.buffers.Get().(*[]byte)
		var k int
		var addr unix.Sockaddr
		n, failed = ignoringEINTR(func() (n int, err error) {
			n, k, _, addr, err = unix.Recvmsg(int(fd), *buf, oob, 0)
			return n, err
		})
		if failed != nil {
			p.buffers.Put(buf)
		} else {
			from = senderOf(addr, oob[:k])
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err == nil {
		err = failed
	}
	return buf, n, from, err
}

// sender is where a datagram came from.
type sender struct {
	client   netip.AddrPort
	fromNode bool // by the loopback link; only known of sockets that ask for it
}

// loopback is the number of the loopback link in every namespace
// (LOOPBACK_IFINDEX of the kernel).
const loopback = 1

func senderOf(addr unix.Sockaddr, oob []byte) (s sender) {
	switch a := addr.(type) {
	case *unix.SockaddrInet4:
		s.client = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		s.client = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return s
	}
	for _, m := range msgs {
		// struct in_pktinfo begins with the link's number, in6_pktinfo ends with it.
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			s.fromNode = binary.NativeEndian.Uint32(m.Data) == loopback
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			s.fromNode = binary.NativeEndian.Uint32(m.Data[16:]) == loopback
		}
	}
	return s
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// end forgets a flow; more than once is as good as once.
func (p *proxy) end(f *flow) {
	p.flows.mu.Lock()
	defer p.flows.mu.Unlock()
	p.endLocked(f)
}

func (p *proxy) endLocked(f *flow) {
	if p.flows.all[f.key] != f {
		return
	}
	delete(p.flows.all, f.key)
	_ = f.client.Close()
	_ = f.server.Close()
	p.room.Release(perFlow)
	p.journal.udp.Add(-1)
	p.stats.flows.Add(-1)
}

// recheck ends the flows that may not stay: of changed frontends, of all if the
// node changed, for its addresses decide whose a packet is. As with conntrack's
// entries that are deleted for rules in the kernel, the next datagram is decided
// anew.
func (p *proxy) recheck(node bool, changed map[plan.Key]bool) {
	p.flows.mu.Lock()
	defer p.flows.mu.Unlock()
	isChanged := func(at netip.AddrPort) bool {
		key := plan.Key{IPv6: at.Addr().Is6(), Addr: at.Addr(), Protocol: objects.UDP, Port: at.Port()}
		nodePort := key
		nodePort.Addr = netip.Addr{}
		return changed[key] || changed[nodePort]
	}
	maps.DeleteFunc(p.flows.warned, func(w warning, _ bool) bool { return isChanged(w.at) })
	for key, f := range p.flows.all {
		if (node || isChanged(key.at)) && !p.index.keeps(key.packet(), f.to) {
			p.endLocked(f)
		}
	}
}

// closeFlows ends all flows and returns how many they were. What a refused
// datagram of one would begin anew while it ends does not begin.
func (p *proxy) closeFlows() int {
	p.flows.mu.Lock()
	p.flows.closed = true
	n := len(p.flows.all)
	for _, f := range p.flows.all {
		p.endLocked(f)
	}
	p.flows.mu.Unlock()
	p.flowing.Wait()
	return n
}
