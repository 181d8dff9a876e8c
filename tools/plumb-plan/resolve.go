package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// fromNode is the sender that stands for the node itself.
const fromNode = "node"

// resolve says what becomes of a packet: FROM,PROTOCOL,ADDRESS:PORT.
func resolve(snap *objects.Snapshot, p *plan.Plan, text string) (string, error) {
	pkt, err := packet(snap, text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	from := pkt.Src.String()
	if pkt.FromNode {
		from += " (the node)"
	}
	fmt.Fprintf(&b, "%s -> %s %s: ", from, pkt.Protocol, netip.AddrPortFrom(pkt.Dst, pkt.Port))
	out := plan.Resolve(p, pkt)
	if !out.Known {
		b.WriteString("not a Service's, passes unchanged\n")
		return b.String(), nil
	}
	fmt.Fprintln(&b, out.Action)
	for _, to := range out.To {
		source := "source kept"
		if to.Masquerade {
			source = "masqueraded"
		}
		fmt.Fprintf(&b, "  %.4f %s %s\n", to.Probability, to.Endpoint, source)
	}
	if out.Affinity > 0 {
		fmt.Fprintf(&b, "  affinity: the endpoint this source had last by %s, if used within %s\n", out.Group, out.Affinity)
	}
	return b.String(), nil
}

func packet(snap *objects.Snapshot, text string) (plan.Packet, error) {
	bad := func(why string) (plan.Packet, error) {
		return plan.Packet{}, fmt.Errorf("--resolve %q: %s; give FROM,PROTOCOL,ADDRESS:PORT such as 10.244.1.5,tcp,10.96.0.1:80, where FROM may be node", text, why)
	}
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return bad("not three parts")
	}
	to, err := netip.ParseAddrPort(parts[2])
	if err != nil || to.Port() == 0 {
		return bad("no destination")
	}
	out := plan.Packet{Dst: to.Addr().Unmap(), Port: to.Port()}
	var ok bool
	if out.Protocol, ok = map[string]objects.Protocol{"tcp": objects.TCP, "udp": objects.UDP, "sctp": objects.SCTP}[strings.ToLower(parts[1])]; !ok {
		return bad("protocol is tcp, udp or sctp")
	}
	var own []netip.Addr
	if snap.Node != nil {
		own = snap.Node.InternalIPs
	}
	if parts[0] == fromNode {
		i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is6() == out.Dst.Is6() })
		if i < 0 {
			return bad("the node has no address of that family")
		}
		out.Src, out.FromNode = own[i], true
		return out, nil
	}
	src, err := netip.ParseAddr(parts[0])
	if err != nil {
		return bad("no sender")
	}
	if out.Src = src.Unmap(); out.Src.Is6() != out.Dst.Is6() {
		return bad("sender and destination are of different families")
	}
	out.FromNode = slices.Contains(own, out.Src)
	return out, nil
}
