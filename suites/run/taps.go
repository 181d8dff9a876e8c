package run

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/capture"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

const (
	// maxPackets bounds what is held of one rollout: some 1000 a second at 100 connections a
	// second, of about 140 bytes each.
	maxPackets = 500_000
	// piece is how many of them lie together.
	piece = 256
	// tapLinger is for packets that are still under way at the end.
	tapLinger = 100 * time.Millisecond
)

// taps see the packets of the Service on the nodes that are within reach. A tap that fails
// leaves losses without that evidence, and the tape says so; it ends no rollout.
type taps struct {
	ports verdict.Ports
	nodes map[string]*capture.Tap
	fails map[string]error

	mu      sync.Mutex // guards the fields below
	clock   clock
	packets pile
	cut     int
}

// pile holds packets in pieces. One slice would be copied whenever it is full: megabytes, which
// nothing can interrupt, so that a garbage collection that begins meanwhile waits, and with it all that
// measures (up to 0.2 s were seen where new pages are slow).
type pile struct {
	pieces [][]record.Packet
	n      int
}

func (p *pile) add(one record.Packet) {
	if p.n%piece == 0 {
		p.pieces = append(p.pieces, make([]record.Packet, 0, piece))
	}
	last := &p.pieces[len(p.pieces)-1]
	*last = append(*last, one)
	p.n++
}

func newTaps(nodes []cluster.Node, ports verdict.Ports) *taps {
	t := &taps{ports: ports, nodes: map[string]*capture.Tap{}, fails: map[string]error{}}
	for _, n := range nodes {
		if n.NetNS == "" {
			continue
		}
		tap, err := capture.Follow(netns.At(n.NetNS), t.want, func(s capture.Seen) { t.add(n.Name, s) })
		if err != nil {
			t.fails[n.Name] = err
			continue
		}
		t.nodes[n.Name] = tap
	}
	return t
}

// want is called for every packet of a node.
func (t *taps) want(h capture.Header) bool {
	if h.Quoted != nil {
		h = *h.Quoted
	}
	ours := func(p uint16) bool { return p == t.ports.Node || p == t.ports.Pod }
	return (ours(h.Src.Port()) || ours(h.Dst.Port())) && h.Flags() != ""
}

func (t *taps) add(node string, s capture.Seen) {
	p := record.Packet{
		Node: node, In: s.In,
		Src: s.Header.Src, Dst: s.Header.Dst, Flags: s.Header.Flags(), Len: s.Header.Len, ICMP: s.Header.Says(),
	}
	if q := s.Header.Quoted; q != nil {
		p.Src, p.Dst, p.Len = q.Src, q.Dst, 0
	}
	ofPod := p.In && p.Src.Port() == t.ports.Pod // shows that it has the request
	if p.Flags == "." && p.Len == 0 && p.ICMP == "" && !ofPod {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.packets.n == maxPackets {
		t.cut++
		return
	}
	p.At = t.clock.monotonic(s.At)
	t.packets.add(p)
}

// clock brings the kernel's stamps of packets to the clock of records: all within a second by
// the same distance, so that they keep their order to the nanosecond.
type clock struct {
	measured int64 // when
	distance int64
}

func (c *clock) monotonic(at time.Time) int64 {
	if now := record.Now(); c.measured == 0 || now-c.measured > int64(time.Second) {
		c.measured = now
		best := int64(math.MaxInt64)
		for range 5 { // the reading that was interrupted least
			before, wall, after := record.Now(), time.Now().UnixNano(), record.Now()
			if after-before < best {
				best, c.distance = after-before, before+(after-before)/2-wall
			}
		}
	}
	return at.UnixNano() + c.distance
}

// stop ends the taps, says of each whether it saw all, and keeps the packets of connections
// that were not served at once.
func (t *taps) stop(to *tape.Tape, sides map[netip.AddrPort]bool) {
	end := time.Now().Add(tapLinger)
	missed := map[string]int{}
	for node, tap := range t.nodes {
		trace, err := tap.Stop(max(0, time.Until(end)))
		if err != nil {
			t.fails[node] = err
		}
		missed[node] = trace.Missed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(missed)) {
		state := record.TapComplete
		if n := missed[node] + t.cut; n > 0 {
			state = fmt.Sprintf("up to %d were missed", n)
		}
		if t.fails[node] == nil {
			to.Event(record.Event{At: record.Now(), Kind: record.KindTap, Node: node, State: state})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(t.fails)) {
		to.Event(record.Event{At: record.Now(), Kind: record.KindTap, Node: node, State: t.fails[node].Error()})
	}
	for _, piece := range t.packets.pieces {
		for _, p := range piece {
			if sides[p.Src] || sides[p.Dst] {
				to.Packet(p)
			}
		}
	}
}

// ports are those by which packets of the workload's Service are told.
func (p *play) ports() verdict.Ports {
	return verdict.Ports{Node: uint16(p.service.Spec.Ports[0].NodePort), Pod: workload.Port, Health: uint16(p.service.Spec.HealthCheckNodePort)}
}
