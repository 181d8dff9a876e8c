package verdict

import (
	"net/netip"
	"testing"

	"github.com/plumbline/plumbline/fixtures/record"
)

// passage is the packets of one served connection, ms after the accept: balancer, node, pod
// and back.
func passage() []record.Packet {
	side, node, pod := netip.MustParseAddrPort("10.9.9.9:5000"), netip.MustParseAddrPort("10.0.0.2:30080"), netip.MustParseAddrPort("10.244.2.2:8080")
	to := func(at int64, dst netip.AddrPort, in bool, flags string, n int) record.Packet {
		return record.Packet{At: at * ms, Node: "n2", In: in, Src: side, Dst: dst, Flags: flags, Len: n}
	}
	from := func(at int64, src netip.AddrPort, in bool, flags string, n int) record.Packet {
		return record.Packet{At: at * ms, Node: "n2", In: in, Src: src, Dst: side, Flags: flags, Len: n}
	}
	return []record.Packet{
		to(0, node, true, "S", 0), to(0, pod, false, "S", 0), from(1, pod, true, "S.", 0), from(1, node, false, "S.", 0),
		to(2, node, true, ".", 0), to(2, pod, false, ".", 0),
		to(3, node, true, "P.", 80), to(3, pod, false, "P.", 80), from(4, pod, true, ".", 0), from(4, node, false, ".", 0),
		from(5, pod, true, "P.", 200), from(5, node, false, "P.", 200),
	}
}

// TestTrail: where a connection came to its end, from the packets that the node saw of it.
func TestTrail(t *testing.T) {
	const start = 100 * s1
	all := passage()
	upTo := func(n int, more ...record.Packet) []record.Packet {
		return append(append([]record.Packet{}, all[:n]...), more...)
	}
	later := func(p record.Packet, by int64) record.Packet { p.At += by * ms; return p }
	resets := func(at int64, from record.Packet) record.Packet { // the other way, in place of an answer
		return record.Packet{At: at * ms, Node: "n2", In: !from.In, Src: from.Dst, Dst: from.Src, Flags: "R."}
	}
	icmp := func(at int64, about record.Packet, in bool) record.Packet {
		return record.Packet{At: at * ms, Node: "n2", In: in, Src: about.Src, Dst: about.Dst, ICMP: "10.0.0.2: type 3 code 3 (port unreachable)"}
	}
	late := func(from int, by int64) []record.Packet { // again after by, and then on
		out := append([]record.Packet{}, all...)
		for i := from; i < len(out); i++ {
			out[i].At += by * ms
		}
		return out
	}
	for _, tc := range []struct {
		name    string
		packets []record.Packet
		want    trail
	}{
		{"no SYN came to the node", nil, trailBalancer},
		{"the SYN came when it was sent again", late(0, 1000), trailBalancer},
		{"the SYN was not handed on", upTo(1, later(all[0], 1000), later(all[0], 2000)), trailNodeSilent},
		{"the SYN was handed on when it came again", append(upTo(1), late(0, 1000)...), trailNodeSilent},
		{"the node refused with RST", upTo(1, resets(1, all[0])), trailNodeRefused},
		{"the node refused with ICMP", upTo(1, icmp(1, all[0], false)), trailNodeRefused},
		{"the pod did not answer the SYN", upTo(2), trailPodSilent},
		{"the pod answered the second SYN", append(upTo(2), late(0, 1000)...), trailPodSilent},
		{"the pod refused, and the node passed it on", upTo(2, resets(1, all[1]), later(resets(1, all[0]), 0)), trailPodRefused},
		{"the pod refused with ICMP", upTo(2, icmp(1, all[1], true), icmp(1, all[0], false)), trailPodRefused},
		{"the node kept the SYN-ACK", upTo(3), trailNodeSilent},
		{"the balancer sent nothing", upTo(6), trailBalancer},
		{"the node kept the request", upTo(7, later(all[6], 204)), trailNodeSilent},
		{"the node reset the request", upTo(7, resets(3, all[6])), trailNodeReset},
		{"the pod reset the request", upTo(8, resets(4, all[7]), resets(4, all[6])), trailPodReset},
		{"the pod did not acknowledge the request", upTo(8, later(all[6], 204), later(all[7], 204)), trailPodSilent},
		{"the pod did, and did not answer", upTo(10), trailPodLate},
		{"the pod did, and answered late", late(10, 900), trailPodLate},
		{"the node kept the answer", upTo(11, later(all[10], 204)), trailNodeSilent},
		{"the node kept the answer, and the pod closed behind it", upTo(11, func() record.Packet { p := resets(6, all[7]); p.Flags = "F."; return p }()), trailNodeSilent},
		{"the answer left the node", all, trailPassed},
		{"the pod reset after the answer had gone", upTo(12, resets(6, all[7]), resets(6, all[6])), trailPassed},
		{"the pod closed before the request came", upTo(6, func() record.Packet { p := resets(2, all[1]); p.Flags = "F."; return p }()), trailPodEnd},
		{"a little late everywhere, most at the pod", func() []record.Packet {
			out := upTo(len(all))
			for i, by := range []int64{0, 20, 20, 20, 20, 20, 20, 40, 40, 40, 190, 230} {
				out[i].At += by * ms
			}
			return out
		}(), trailPodSilent},
		{"the balancer gave up after it got no answer", upTo(2, record.Packet{At: 3000 * ms, Node: "n2", In: true, Src: all[0].Src, Dst: all[0].Dst, Flags: "R."}), trailPodSilent},
		{"a proxy of the node's own", upTo(1, all[3], all[6]), trailUnknown},
		{"another node's packets", func() []record.Packet {
			out := upTo(len(all))
			for i := range out {
				out[i].Node = "n1"
			}
			return out
		}(), trailBalancer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Input{Events: []record.Event{{Kind: record.KindTap, Node: "n2", State: record.TapComplete}}}
			for _, p := range tc.packets {
				p.At += start
				in.Packets = append(in.Packets, p)
			}
			s := Settings{Ports: Ports{Node: 30080, Pod: 8080}}
			conn := &record.Conn{Accepted: start, At: start + 5*s1, Source: all[0].Src, Server: "n2"}
			o := outcome{class: RespTimeout, conn: conn, node: "n2", Attempt: record.Attempt{Start: start, End: start + 5*s1}}
			if got := newTrails(in, s).of(o); got != tc.want {
				t.Errorf("trail %d, want %d", got, tc.want)
			}
			again := o
			tried := *conn
			tried.Retries = 1
			again.conn = &tried
			if got := newTrails(in, s).of(again); got != trailUnknown {
				t.Errorf("after a redial: trail %d, want none", got)
			}
			in.Events[0].State = "up to 7 packets were missed"
			if got := newTrails(in, s).of(o); got != trailUnknown {
				t.Errorf("with packets missing: trail %d, want none", got)
			}
		})
	}
}

// A reset in the middle of an answer is its sender's, of a client that met it.
func TestTrailOfABrokenAnswer(t *testing.T) {
	all := passage()
	in := Input{Events: []record.Event{{Kind: record.KindTap, Node: "n2", State: record.TapComplete}}}
	for _, p := range append(all, record.Packet{At: 6 * ms, Node: "n2", In: true, Src: all[2].Src, Dst: all[2].Dst, Flags: "R."}) {
		p.At += s1
		in.Packets = append(in.Packets, p)
	}
	conn := &record.Conn{Accepted: s1, At: 2 * s1, Source: all[0].Src, Server: "n2"}
	for class, want := range map[Class]trail{ResetMidBody: trailPodReset, OKSlow: trailPassed, RespTimeout: trailPassed} {
		o := outcome{class: class, conn: conn, node: "n2"}
		if got := newTrails(in, Settings{Ports: Ports{Node: 30080, Pod: 8080}}).of(o); got != want {
			t.Errorf("%s: trail %d, want %d", class, got, want)
		}
	}
}
