package kit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/capture"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// How a failed attempt is made again for its packets: so often, all at once, in so
// much time with what is around them; then they may still be under way.
const (
	repeats       = 6
	repeatLimit   = 10 * remote.DefaultTimeout // but for a host that stands still, one is enough
	repeatLinger  = 200 * time.Millisecond
	keepPackets   = 2000
	keepPcapBytes = 256 << 10
)

// captured makes a failed attempt again while the packets of every node are
// recorded, and keeps those that belong to it; doors are where a load balancer would
// pass it on. The outcome stands before; whatever goes wrong here is said and changes
// nothing.
func (e *Env) captured(s *Spec, failed trial, doors []netip.AddrPort) {
	t := failed.to
	taps := e.listen(s, t)
	if len(taps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, repeatLimit)
	defer cancel()
	start := time.Now()
	res, err := failed.again(ctx)
	if err != nil {
		s.Say("the failed attempt could not be made again for its packets: %v", err)
	}
	traces := map[*Node]capture.Trace{}
	end := time.Now().Add(repeatLinger)
	for _, n := range e.nodes {
		if taps[n] == nil {
			continue
		}
		trace, err := taps[n].Stop(max(0, time.Until(end)))
		if err != nil {
			s.Say("the packets of node %s are not complete: %v", n.Name, err)
		}
		traces[n] = trace
	}
	if err != nil {
		return
	}
	s.Say("the failed attempt was made again to record its packets: %s", res.Summary())
	s.keep("attempts-captured.txt", repetition(failed.client, t, res))
	ends := own(append(doors, t.to), res, traces)
	follow(ends, append(e.flows(s, t, traces), opened(traces)...))
	e.keepPackets(s, traces, ends, start)
}

// again makes attempts like those of a trial.
func (t trial) again(ctx context.Context) (*remote.Results, error) {
	if t.path == "" {
		return t.client.probe.Batch(ctx, remote.Batch{Network: t.to.network, Target: t.to.to, Attempts: repeats, Concurrency: repeats})
	}
	res := &remote.Results{Attempts: make([]remote.Result, repeats)}
	errs := make([]error, repeats)
	var wg sync.WaitGroup
	for i := range repeats {
		wg.Go(func() {
			r, err := t.client.probe.Get(ctx, remote.Get{Target: t.to.to, Path: t.path})
			if errs[i] = err; err == nil {
				res.Attempts[i] = remote.Result{At: r.At, Latency: r.Latency, Class: r.Class, Phase: r.Phase, Src: r.Src, From: r.From, Err: r.Err}
			}
		})
	}
	wg.Wait()
	return res, errors.Join(errs...)
}

// listen records the packets of the target's protocol, and ICMP, on all nodes that
// are within reach.
func (e *Env) listen(s *Spec, t Target) map[*Node]*capture.Tap {
	want := func(h capture.Header) bool {
		if h.Quoted != nil {
			h = *h.Quoted
		}
		return h.Proto == protocol(t) && h.Src.Addr().Is4() == t.to.Addr().Is4()
	}
	taps := map[*Node]*capture.Tap{}
	var beyond []string
	for _, n := range e.nodes {
		if n.NetNS == "" {
			beyond = append(beyond, n.Name)
			continue
		}
		tap, err := capture.Listen(netns.At(n.NetNS), want)
		if err != nil {
			s.Say("the packets of node %s are not recorded: %v", n.Name, err)
			continue
		}
		taps[n] = tap
	}
	if len(beyond) > 0 {
		s.Say("packets are not recorded where there is no way into the node: %s", strings.Join(beyond, ", "))
	}
	return taps
}

// repetition says what the attempts came to.
func repetition(c Client, t Target, res *remote.Results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s to %s, made again after the failure to record its packets.\nThe packets are of this repetition, not of the attempts that failed:\n", c.Name, t)
	fmt.Fprintln(&b, res.Summary())
	for _, r := range res.Attempts {
		fmt.Fprintf(&b, "from %s: %s\n", r.Src, r)
	}
	return b.String()
}

// keepPackets writes of each node the packets with one of the ends.
func (e *Env) keepPackets(s *Spec, traces map[*Node]capture.Trace, ends map[netip.AddrPort]bool, start time.Time) {
	for _, n := range e.nodes {
		trace, ok := traces[n]
		if !ok {
			continue
		}
		trace = trace.Only(capture.Between(ends), keepPackets, keepPcapBytes)
		s.keep(n.Name+"-packets.txt", fmt.Sprintf("%d packets; seconds since the attempts began, interface, direction, packet\n%s", trace.Len(), trace.Text(start)))
		if trace.Len() > 0 {
			s.keep(n.Name+".pcap", string(trace.Pcap()))
		}
	}
}

// own are the ends that tell the attempts' packets from others': the targets, which
// are the behaviour's alone, and their sources, as the client, servers or nodes saw
// them.
func own(targets []netip.AddrPort, res *remote.Results, traces map[*Node]capture.Trace) map[netip.AddrPort]bool {
	ends := map[netip.AddrPort]bool{}
	for _, to := range targets {
		ends[to] = true
	}
	for _, r := range res.Attempts {
		for _, a := range []netip.AddrPort{r.Src, r.Seen} {
			if a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port()); a.Port() != 0 && !a.Addr().IsUnspecified() {
				ends[a] = true
			}
		}
	}
	for _, trace := range traces {
		for _, h := range trace.Headers() {
			if h.Quoted == nil && slices.Contains(targets, h.Dst) {
				ends[h.Src] = true
			}
		}
	}
	return ends
}

// flow is where packets come from, and where answers to them go, which is another
// end if the source was translated.
type flow struct{ from, back netip.AddrPort }

// opened are flows of TCP by what opens them: connection tracking forgets at once
// what is refused.
func opened(traces map[*Node]capture.Trace) []flow {
	first := map[uint32]netip.AddrPort{}
	var out []flow
	for _, trace := range traces {
		for _, h := range trace.Headers() {
			seq, ok := h.Opens()
			if !ok {
				continue
			}
			if from, ok := first[seq]; !ok {
				first[seq] = h.Src
			} else if from != h.Src {
				out = append(out, flow{from, h.Src}, flow{h.Src, from})
			}
		}
	}
	return out
}

// follow adds the ends that flows were given, over as many nodes as they passed.
func follow(ends map[netip.AddrPort]bool, flows []flow) {
	for grown := true; grown; {
		grown = false
		for _, f := range flows {
			if ends[f.from] && !ends[f.back] {
				ends[f.back], grown = true, true
			}
		}
	}
}

// flows are those of the target's family and protocol in the nodes' connection tracking.
func (e *Env) flows(s *Spec, t Target, traces map[*Node]capture.Trace) []flow {
	family := netlink.InetFamily(unix.AF_INET)
	if t.to.Addr().Is6() {
		family = unix.AF_INET6
	}
	var out []flow
	for n := range traces {
		err := netns.At(n.NetNS).Do(func() error {
			list, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
			for _, f := range list {
				if f.Forward.Protocol == protocol(t) {
					out = append(out, flow{addrPort(f.Forward.SrcIP, f.Forward.SrcPort), addrPort(f.Reverse.DstIP, f.Reverse.DstPort)})
				}
			}
			return err
		})
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // then it is others' flows that came or went
			s.Say("packets of node %s whose source was translated may be left out: read connection tracking: %v", n.Name, err)
		}
	}
	return out
}

func protocol(t Target) uint8 {
	return map[remote.Network]uint8{remote.TCP: unix.IPPROTO_TCP, remote.UDP: unix.IPPROTO_UDP, remote.SCTP: unix.IPPROTO_SCTP}[t.network]
}

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a.Unmap(), port)
}
