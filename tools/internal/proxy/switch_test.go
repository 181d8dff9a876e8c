package proxy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/fixtures/netns"
)

var switches = flag.Int("switches", 1, "how often each pair of backends is switched")

// stream opens connections from one place to one frontend, one after the other, and keeps
// what became of them.
type stream struct {
	name     string
	from     func(func() error) error // runs it where the connections begin
	to       netip.AddrPort
	protocol string

	mu     sync.Mutex
	begun  int       // guarded by mu
	failed []failure // guarded by mu
	resent []failure // guarded by mu; those that did not fail because their first packet was sent again
}

// failure is a connection that failed, or would have, and when it was begun.
type failure struct {
	begun time.Time
	syn   bool // of TCP, before it was open
	text  string
}

// connectWithin outlasts two SYNs that are lost: a client whose SYN is dropped sends it
// again after one second and after three (RFC 6298).
const connectWithin = 5 * time.Second

// run opens fifty connections a second until ctx ends.
func (s *stream) run(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		begin := time.Now()
		open, resent, err := s.once()
		says := func(what any) failure {
			return failure{begin, s.protocol == "tcp" && (!open || resent > 0), fmt.Sprintf("%s at %s after %s: %v", s.name, begin.Format("05.000"), time.Since(begin).Round(time.Millisecond), what)}
		}
		s.mu.Lock()
		s.begun++
		switch {
		case err != nil:
			s.failed = append(s.failed, says(err))
		case resent > 0:
			s.resent = append(s.resent, says(fmt.Sprint("first packets sent again: ", resent)))
		}
		s.mu.Unlock()
		<-tick.C
	}
}

func (s *stream) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

func (s *stream) dial() (c net.Conn, err error) {
	err = s.from(func() error {
		c, err = net.DialTimeout(s.protocol, s.to.String(), connectWithin)
		return err
	})
	return c, err
}

// once is one connection, whether there was one, and how often its first packet was sent again because it, or
// the answer, was lost: however long that takes on a busy host, one that is only late does not count.
func (s *stream) once() (open bool, resent int, err error) {
	c, err := s.dial()
	if err != nil {
		return false, 0, err
	}
	defer c.Close()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		if resent, err = retransmitted(tcp); err != nil { // of the SYN alone: nothing else was sent
			return true, 0, err
		}
		return true, resent, talk(c, connectWithin)
	}
	for try := range 3 { // a datagram that is lost is sent again, after a time, by who sent it
		resent, err = exchange(c, byte(try), resendAfter)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, unix.EPERM): // a rule of the node lost it
			time.Sleep(resendAfter)
		default:
			return true, resent, err
		}
	}
	return true, resent, err
}

// retransmitted is how many segments of a connection its kernel has sent again.
func retransmitted(c *net.TCPConn) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); failed == nil {
			n = int(info.Total_retrans)
		}
	})
	return n, errors.Join(err, failed)
}

// resendAfter is a client's own time-out, such as a resolver's.
const resendAfter = time.Second

// talk sends a byte and waits for it to come back.
func talk(c net.Conn, within time.Duration) error {
	_, err := exchange(c, 'x', within)
	return err
}

// exchange sends a byte and waits for one to come back, which may be the answer to an earlier one.
func exchange(c net.Conn, what byte, within time.Duration) (answer int, err error) {
	said := []byte{what}
	if _, err := c.Write(said); err != nil {
		return 0, err
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err = io.ReadFull(c, said)
	return int(said[0]), err
}

// echo answers whatever comes to a port of a place.
func echo(t *testing.T, at *netns.NS, port int) {
	t.Helper()
	var ln net.Listener
	var packets net.PacketConn
	err := at.Do(func() (err error) {
		if ln, err = net.Listen("tcp", fmt.Sprint(":", port)); err != nil {
			return err
		}
		packets, err = net.ListenPacket("udp", fmt.Sprint(":", port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	})
	serving.Go(func() {
		buf := make([]byte, 64)
		for {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buf[:n], from)
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		_ = packets.Close()
		serving.Wait()
	})
}

// switched is the node and the traffic of one test.
type switched struct {
	w       *world
	streams []*stream
	held    []*stream // one connection each, which lasts
}

func newSwitched(t *testing.T) *switched {
	t.Helper()
	n := dptest.NewNet(t)
	for _, pod := range []dptest.Source{dptest.PodA, dptest.PodB} {
		echo(t, n.Place(pod), 8080)
	}
	web := service("web", "10.96.0.10", func(s *corev1.Service) {
		loadBalancer(s)
		udp := corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: 80, NodePort: 30080}
		s.Spec.Ports[0].Name = "tcp"
		s.Spec.Ports = append(s.Spec.Ports, udp)
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
	})
	pods := slice("web", dptest.PodA.Addrs()[0].String()+"!", dptest.PodB.Addrs()[0].String()+"!")
	pods.Ports = []discoveryv1.EndpointPort{
		{Name: ptr("tcp"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)},
		{Name: ptr("udp"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolUDP)},
	}
	n.Sockets(t)
	s := &switched{w: newWorldIn(t, n.Node, theNode(), web, pods)}
	group, err := dptest.Cgroup(n.FD())
	if err != nil {
		t.Fatal(err)
	}
	s.w.cgroup = group
	for _, to := range []struct {
		name string
		from dptest.Source
		at   string
	}{
		{"outside to the node port", dptest.Outside, nodeIP + ":30080"},
		{"outside to the load balancer", dptest.Outside, "203.0.113.7:80"},
		{"pod to the ClusterIP", dptest.PodB, "10.96.0.10:80"},
		{"node to the ClusterIP", dptest.Self, "10.96.0.10:80"},
	} {
		for _, protocol := range []string{"tcp", "udp"} {
			from := func(f func() error) error { return n.As(to.from, f) }
			one := stream{name: protocol + " from " + to.name, from: from, to: netip.MustParseAddrPort(to.at), protocol: protocol}
			held := stream{name: one.name, from: one.from, to: one.to, protocol: one.protocol}
			s.streams, s.held = append(s.streams, &one), append(s.held, &held)
		}
	}
	return s
}

// hold opens one connection of each kind, which are to last.
func (s *switched) hold(t *testing.T) map[*stream]net.Conn {
	t.Helper()
	open := map[*stream]net.Conn{}
	for _, h := range s.held {
		// The flows of the last switch may be ended only now, beside the rules.
		s.w.await(t, h.name+", before anything", func() bool {
			c, err := h.dial()
			if err == nil {
				err = talk(c, connectWithin)
			}
			if err != nil && c != nil {
				_ = c.Close()
			}
			open[h] = c
			return err == nil
		})
	}
	return open
}

func closeAll(open map[*stream]net.Conn) {
	for _, c := range open {
		_ = c.Close()
	}
}

// broken are those that do not go on: of TCP for as long as a new one may take, of UDP within three seconds.
func broken(open map[*stream]net.Conn) (out []string) {
	var mu sync.Mutex // guards out
	var asked sync.WaitGroup
	for h, c := range open { // all at once: who waits for a silent one does not wait again for the next
		asked.Go(func() {
			within, tries := connectWithin, 1
			if h.protocol == "udp" {
				within, tries = resendAfter, 3
			}
			err := talk(c, within)
			for ; err != nil && tries > 1; tries-- {
				err = talk(c, within)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, fmt.Sprintf("%s: %v", h.name, err))
			}
		})
	}
	asked.Wait()
	slices.Sort(out)
	return out
}

// outcome is what became of connections.
type outcome struct {
	failed, resent []failure // new ones: that failed, and that did not because they were tried again
	ended          []string  // those that lasted and did not go on
}

// judge fails for what became of connections while a successor came, which was ready at a time: none that
// began later may fail; gapless, none at all that begins, be its first packet sent again; and where conntrack
// keeps them those that are open go on. The rest is said.
func (out outcome) judge(t *testing.T, what string, gapless, keeps bool, ready time.Time) {
	t.Helper()
	unopened := 0
	for _, f := range slices.Concat(out.failed, out.resent) {
		if f.syn {
			unopened++
		}
	}
	failed := func(f failure, late bool) {
		if late || gapless && (keeps || f.syn && unopened > 1) {
			t.Errorf("%s: failed: %s", what, f.text)
		} else {
			t.Logf("%s: failed, and it was ready at %s: %s", what, ready.Format("05.000"), f.text)
		}
	}
	for _, f := range out.failed {
		failed(f, f.begun.After(ready))
	}
	for _, f := range out.resent {
		failed(f, false)
	}
	if len(out.ended) == 0 {
		return
	}
	say := t.Logf
	if keeps {
		say = t.Errorf
	}
	say("%s: of those that were open did not go on:\n%s", what, strings.Join(out.ended, "\n"))
}

// load runs connections while f does something, and some time before and after.
func (s *switched) load(t *testing.T, f func()) (out outcome) {
	t.Helper()
	open := s.hold(t)
	defer closeAll(open)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, one := range s.streams {
		one.begun, one.failed, one.resent = 0, nil, nil
		running.Go(func() { one.run(ctx) })
	}
	enough := func(more int) {
		until := map[*stream]int{}
		for _, one := range s.streams {
			until[one] = one.count() + more
		}
		s.w.await(t, "connections", func() bool {
			return !slices.ContainsFunc(s.streams, func(one *stream) bool { return one.count() < until[one] })
		})
	}
	begin := time.Now()
	enough(10)
	f()
	enough(25)
	cancel()
	running.Wait()
	begun := 0
	for _, one := range s.streams {
		begun += one.begun
		out.failed, out.resent = append(out.failed, one.failed...), append(out.resent, one.resent...)
	}
	out.ended = broken(open)
	t.Logf("%d new connections in %s, %d failed, %d were tried again; %d of %d that lasted did not go on", begun, time.Since(begin).Round(time.Millisecond), len(out.failed), len(out.resent), len(out.ended), len(open))
	return out
}

// Each backend takes over from each other one under load. What conntrack keeps goes on whoever
// comes; what a process or maps keep breaks with these. To one that forwards packets, from one that
// does, no new connection fails, nor would any if its first packet were not sent again. New ones wait
// while one that takes them in begins or has ended, and those that are open when maps go break too, with
// the one, of hundreds a second, whose SYN is on its way then; when the successor is ready none fails.
// Nothing is left of the one before.
func TestSwitch(t *testing.T) {
	t.Parallel()
	for _, from := range backendNames() {
		t.Run(from, func(t *testing.T) {
			t.Parallel() // each on a node of its own: it mostly waits
			s := newSwitched(t)
			all := backend.All(s.w.ns.FD())
			for _, to := range backendNames() {
				if from != to {
					t.Run("to "+to, func(t *testing.T) { s.switchOver(t, all, from, to) })
				}
			}
		})
	}
}

// switchOver changes the backend as often as is asked for, and finds nothing of any after it.
func (s *switched) switchOver(t *testing.T, all map[string]backend.Backend, from, to string) {
	for range *switches {
		gapless := all[from].Keeps != backend.Process && all[to].Keeps != backend.Process
		s.change(t, from, to, gapless, all[from].Keeps == backend.Conntrack)
		for name, b := range all {
			if left, err := b.Left(); err != nil || len(left) > 0 {
				t.Errorf("after --cleanup of %s there is of %s: %v, %v", from, name, left, err)
			}
		}
	}
}

// change is one change of backend, and a --cleanup in the name of the first.
func (s *switched) change(t *testing.T, from, to string, gapless, keeps bool) {
	t.Helper()
	all := backend.All(s.w.ns.FD())
	old := s.w.start(t, "--backend="+from)
	var next *process
	var ready time.Time
	out := s.load(t, func() {
		old.end(t, syscall.SIGTERM)
		next = s.w.start(t, "--backend="+to)
		ready = time.Now()
		s.w.await(t, "that nothing of "+from+" is left", func() bool {
			left, err := all[from].Left()
			return err == nil && len(left) == 0
		})
	})
	out.judge(t, "to "+to, gapless, keeps, ready)
	// Of hundreds of connections that rules masquerade by any port a fifth has one that programs give away.
	if keeps && to == "ebpf" && !strings.Contains(next.log.String(), "others masquerade are given to none") {
		t.Error("no connection that rules masquerade has kept its port for itself")
	}
	next.end(t, syscall.SIGTERM)
	s.w.output(t, "--cleanup", "--backend="+from) // of the other one, too
}
