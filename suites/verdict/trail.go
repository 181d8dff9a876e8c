package verdict

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// trail is what became of a request's packets on its way from the balancer through the node to
// the pod and back, as the node saw them.
type trail int

const (
	trailUnknown     trail = iota // nobody looked, or it cannot be told
	trailBalancer                 // they did not leave the balancer in time, or what came back stayed there
	trailNodeSilent               // the node passed them, or the answer, on late or never
	trailNodeRefused              // the node answered the SYN with RST or ICMP, and no pod had
	trailNodeReset                // the node reset an open connection, and no pod had
	trailPodSilent                // they were handed to the pod, which did not acknowledge them in time
	trailPodRefused               // the pod answered the SYN with RST or ICMP
	trailPodReset                 // the pod reset an open connection
	trailPodLate                  // the pod acknowledged the request, and answered late or never
	trailPodEnd                   // the pod closed the connection in order, without an answer
	trailPassed                   // the answer left the node in time
)

// network: packets were dropped or refused on their way, which no stalled program does.
func (t trail) network() bool {
	switch t {
	case trailNodeSilent, trailNodeRefused, trailNodeReset, trailPodRefused, trailPodReset:
		return true
	}
	return false
}

// trails finds the packets of an attempt by the balancer's end of its connection, which no
// translation under externalTrafficPolicy=Local changes.
type trails struct {
	ports  Ports
	nodes  map[string]bool // whose packets are all there
	bySide map[netip.AddrPort][]record.Packet
}

func newTrails(in Input, s Settings) trails {
	t := trails{ports: s.Ports, nodes: map[string]bool{}, bySide: map[netip.AddrPort][]record.Packet{}}
	if s.Cluster { // the node sends from an address of its own
		return t
	}
	for _, e := range in.Events {
		if e.Kind == record.KindTap {
			t.nodes[e.Node] = e.State == record.TapComplete
		}
	}
	for _, p := range in.Packets {
		side := unmap(p.Src)
		if port := p.Src.Port(); port == s.Ports.Node || port == s.Ports.Pod {
			side = unmap(p.Dst)
		}
		t.bySide[side] = append(t.bySide[side], p)
	}
	for _, all := range t.bySide {
		slices.SortStableFunc(all, func(a, b record.Packet) int { return cmp.Compare(a.At, b.At) })
	}
	return t
}

// The stations of a request, in order. A station is reached by its first packet.
const (
	synAtNode = iota
	synToPod
	synAckFromPod
	synAckFromNode
	dataAtNode
	dataToPod
	dataFromPod
	dataFromNode
	stations
)

// stretches are who is to blame if a station is not reached, or late after the one before.
func stretches() [stations]trail {
	return [stations]trail{
		synAtNode: trailBalancer, synToPod: trailNodeSilent, synAckFromPod: trailPodSilent, synAckFromNode: trailNodeSilent,
		dataAtNode: trailBalancer, dataToPod: trailNodeSilent, dataFromPod: trailPodSilent, dataFromNode: trailNodeSilent,
	}
}

// patient is how long a stretch may take: a little less than the shortest time after which
// TCP sends again.
const patient = SlowAfter - 10*time.Millisecond

// way is the packets of one connection, sorted out.
type way struct {
	at                  [stations]int64
	podReset, nodeReset int64 // RST or ICMP error
	podEnd              int64 // FIN
	ackOfData           int64 // from the pod
}

// of follows an attempt that was lost or slow.
func (t trails) of(o outcome) trail {
	if o.conn == nil || !o.conn.Source.IsValid() || !t.nodes[o.node] || t.ports == (Ports{}) {
		return trailUnknown
	}
	if o.conn.Retries > 0 { // the balancer's end is that of its last try alone
		return trailUnknown
	}
	return t.sort(o).judge(o)
}

func (t trails) sort(o outcome) way {
	var w way
	first := func(at *int64, p record.Packet) {
		if *at == 0 {
			*at = p.At
		}
	}
	// A port may be used again after some time; HAProxy's stamp has whole milliseconds.
	from, to := o.conn.Accepted-2*int64(time.Millisecond), o.conn.At+int64(time.Second)
	for _, p := range t.bySide[unmap(o.conn.Source)] {
		if p.Node != o.node || p.At < from || p.At > to {
			continue
		}
		inner := p.Src.Port() == t.ports.Pod || p.Dst.Port() == t.ports.Pod
		toPod := p.Dst.Port() == t.ports.Node || p.Dst.Port() == t.ports.Pod
		syn, ack := strings.Contains(p.Flags, "S"), strings.Contains(p.Flags, ".")
		switch {
		case strings.Contains(p.Flags, "R") && toPod: // the balancer gave up
		case p.ICMP != "" || strings.Contains(p.Flags, "R"):
			if inner && p.In {
				first(&w.podReset, p)
			} else if !inner && !p.In {
				first(&w.nodeReset, p)
			}
		case inner && p.In && strings.Contains(p.Flags, "F") && p.Len == 0:
			first(&w.podEnd, p)
		case toPod && syn:
			first(&w.at[map[bool]int{false: synAtNode, true: synToPod}[inner]], p)
		case toPod && p.Len > 0:
			first(&w.at[map[bool]int{false: dataAtNode, true: dataToPod}[inner]], p)
		case !toPod && syn && ack:
			first(&w.at[map[bool]int{false: synAckFromNode, true: synAckFromPod}[inner]], p)
		case !toPod && p.Len > 0:
			first(&w.at[map[bool]int{false: dataFromNode, true: dataFromPod}[inner]], p)
		case inner && p.In && w.at[dataToPod] != 0:
			first(&w.ackOfData, p)
		}
	}
	return w
}

// judge finds the first thing that went wrong on the way.
func (w way) judge(o outcome) trail {
	if w.at[synToPod] == 0 && w.at[synAckFromNode] != 0 {
		return trailUnknown // the node ends connections itself: what it dials has another end
	}
	reset, by := w.reset()
	last := o.conn.Accepted
	for i, who := range stretches() {
		at := w.at[i]
		late := at == 0 || at-last > patient.Nanoseconds()
		if reset != 0 && (at == 0 || reset <= at) && reset-last <= patient.Nanoseconds() {
			return by
		}
		if late {
			if i <= dataFromPod && w.podEnd != 0 && (at == 0 || w.podEnd < at) && w.podEnd-last <= patient.Nanoseconds() {
				return trailPodEnd
			}
			if i == dataFromPod && w.ackOfData != 0 && w.ackOfData-last <= patient.Nanoseconds() {
				return trailPodLate
			}
			return who
		}
		last = at
	}
	if reset != 0 && o.class.Lost() && !o.late() { // in the middle of the answer
		return by
	}
	return w.slowest(o)
}

// slowest is who took longest of an answer that left the node late though no stretch of its
// way was late by itself.
func (w way) slowest(o outcome) trail {
	if w.at[dataFromNode]-o.conn.Accepted <= patient.Nanoseconds() {
		return trailPassed
	}
	last, most, who := o.conn.Accepted, int64(0), trailUnknown
	for i, by := range stretches() {
		if d := w.at[i] - last; d > most {
			most, who = d, by
		}
		last = w.at[i]
	}
	return who
}

// reset is when the connection was refused or reset, and by whom.
func (w way) reset() (at int64, by trail) {
	open := w.at[synAckFromNode]
	switch {
	case w.podReset != 0 && (w.nodeReset == 0 || w.podReset <= w.nodeReset):
		if at = w.podReset; open == 0 || at < open {
			return at, trailPodRefused
		}
		return at, trailPodReset
	case w.nodeReset != 0:
		if at = w.nodeReset; open == 0 || at < open {
			return at, trailNodeRefused
		}
		return at, trailNodeReset
	}
	return 0, trailUnknown
}
