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

// resolve says what becomes of a packet.
func resolve(snap *objects.Snapshot, p *plan.Plan, pkt plan.Packet) (string, error) {
	pkt, err := sent(snap, pkt)
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

// packet reads FROM,PROTOCOL,ADDRESS:PORT, where %LINK may follow an address. It has no sender yet where that is the node.
func packet(text string) (plan.Packet, error) {
	bad := func(why string) (plan.Packet, error) {
		return plan.Packet{}, fmt.Errorf("--resolve %q: %s; give FROM,PROTOCOL,ADDRESS:PORT such as 10.244.1.5,tcp,10.96.0.1:80, where FROM may be node, or 10.244.1.5%%LINK", text, why)
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
	if out.FromNode = parts[0] == fromNode; out.FromNode {
		return out, nil
	}
	addr, link, _ := strings.Cut(parts[0], "%")
	out.In = link
	src, err := netip.ParseAddr(addr)
	if err != nil {
		return bad("no sender")
	}
	if out.Src = src.Unmap(); out.Src.Is6() != out.Dst.Is6() {
		return bad("sender and destination are of different families")
	}
	return out, nil
}

// sent is a packet with its sender, as far as the objects say who the node is.
func sent(snap *objects.Snapshot, pkt plan.Packet) (plan.Packet, error) {
	var own []netip.Addr
	var pods []netip.Prefix
	if snap.Node != nil {
		own, pods = snap.Node.InternalIPs, snap.Node.PodCIDRs
	}
	if !pkt.FromNode {
		pkt.FromNode = slices.Contains(own, pkt.Src)
		pkt.Here = pkt.FromNode || slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Contains(pkt.Src) })
		return pkt, nil
	}
	i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is6() == pkt.Dst.Is6() })
	if i < 0 {
		return pkt, fmt.Errorf("--resolve %s,...: the node has no address of the family of %s; give an address", fromNode, pkt.Dst)
	}
	pkt.Src = own[i]
	return pkt, nil
}
