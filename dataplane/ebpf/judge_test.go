package ebpf_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// judge says what a plan and its connections do not explain of what became of a packet.
type judge struct {
	plan     *plan.Plan
	resolver *plan.Resolver
	clients  map[netip.Addr]bool // who has sent something
}

func newJudge(p *plan.Plan) *judge {
	return &judge{plan: p, resolver: plan.NewResolver(p), clients: map[netip.Addr]bool{}}
}

// way is a packet before and after a program.
type way struct {
	egress  bool
	in, out []byte
	was, is headers
}

func (j *judge) crossed(egress bool, in []byte, verdict int, out []byte) error {
	w := way{egress: egress, in: in, out: out}
	was, ok := headersOf(in)
	if !ok {
		if verdict != passes || !bytes.Equal(in, out) {
			return fmt.Errorf("it has no whole header, and the verdict is %d", verdict)
		}
		return nil
	}
	w.was = was
	w.is, _ = headersOf(out)
	switch verdict {
	case isDropped:
		return j.dropped(w)
	case isSent:
		return j.answered(w)
	case passes:
		if bytes.Equal(in, out) {
			return j.untouched(w)
		}
		return j.translated(w)
	}
	return fmt.Errorf("the verdict is %d", verdict)
}

// ours tells whether an address is one that Services are reached at.
func (j *judge) ours(a netip.Addr) bool {
	return j.services(a) || slices.Contains(j.plan.Node.Addrs, a) || j.frontends(a, func(plan.Frontend) bool { return true })
}

// services tells whether nobody but Services has an address.
func (j *judge) services(a netip.Addr) bool {
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	return slices.ContainsFunc(j.plan.Node.ServiceCIDRs, in)
}

// frontends tells whether something is so of a frontend at an address.
func (j *judge) frontends(a netip.Addr, so func(plan.Frontend) bool) bool {
	for _, s := range j.plan.Services {
		for _, f := range s.Frontends {
			node := f.Key.IsNodePort() && f.Key.IPv6 == a.Is6() && slices.Contains(j.plan.Node.Addrs, a)
			if (node || f.Key.Addr == a) && so(f) {
				return true
			}
		}
	}
	return false
}

// endpoint tells whether an address, with a port unless that is 0, is a frontend's at another.
func (j *judge) endpoint(at, of netip.AddrPort, proto objects.Protocol, later bool) bool {
	return j.frontends(of.Addr(), func(f plan.Frontend) bool {
		if f.Key.Protocol != proto || !later && f.Key.Port != of.Port() {
			return false
		}
		return slices.ContainsFunc(f.Outside.Endpoints, func(e plan.Endpoint) bool {
			return e.Addr == at.Addr() && (later || e.Port == at.Port())
		})
	})
}

// anyEndpoint is endpoint of any frontend.
func (j *judge) anyEndpoint(at netip.AddrPort, later bool) bool {
	for _, s := range j.plan.Services {
		for _, f := range s.Frontends {
			for _, e := range f.Outside.Endpoints {
				if e.Addr == at.Addr() && (later || e.Port == at.Port()) {
					return true
				}
			}
		}
	}
	return false
}

// node tells whether the node masquerades with an address.
func (j *judge) node(a netip.Addr) bool { return slices.Contains(dptest.Local(), a) }

// What is dropped is for a Service, or of a connection.
func (j *judge) dropped(w way) error {
	if _, is := w.was.isError(w.in); is {
		return nil // by what it quotes
	}
	src, dst := w.was.src, w.was.dst
	switch {
	case j.ours(dst), !w.egress && j.node(dst) && j.anyEndpoint(netip.AddrPortFrom(src, 0), true):
	case w.egress && (j.anyEndpoint(netip.AddrPortFrom(dst, 0), true) || j.anyEndpoint(netip.AddrPortFrom(src, 0), true)):
	default:
		return fmt.Errorf("it is dropped, from %s to %s", src, dst)
	}
	return nil
}

// What passes at egress as it is, and would be taken for a packet, is for no address of the Services.
func (j *judge) untouched(w way) error {
	src, dst := w.was.src, w.was.dst
	if w.egress && w.was.end > 0 && j.services(dst) && !src.Is4In6() {
		return fmt.Errorf("it leaves for %s", dst)
	}
	return nil
}

// A refusal goes back, from where nobody serves, and is whole.
func (j *judge) answered(w way) error {
	was, is := w.was, w.is
	_, port, _ := was.portsOf(w.in)
	f, found := j.resolver.Find(plan.Packet{Src: was.src, Dst: was.dst, Protocol: was.proto, Port: port})
	switch {
	case w.egress || !found || f.Key.Protocol != 0 && f.Outside.Action != plan.Reject:
		return fmt.Errorf("what is for %s port %d is refused", was.dst, port)
	case was.later:
		return errors.New("a later fragment is refused")
	case is.src != was.dst || is.dst != was.src || is.end != len(w.out) || is.fragment:
		return fmt.Errorf("what is from %s to %s is answered from %s to %s with %d of %d bytes", was.src, was.dst, is.src, is.dst, is.end, len(w.out))
	case was.src.IsMulticast() || was.src.IsUnspecified():
		return fmt.Errorf("it is answered, and comes from %s", was.src)
	}
	if is.proto == objects.TCP {
		if was.proto != objects.TCP || w.out[is.l4+13]&rst == 0 || was.right(w.in) && !is.right(w.out) {
			return fmt.Errorf("it is answered by %x", w.out)
		}
		return nil
	}
	at, isError := is.isError(w.out)
	if !isError || !is.right(w.out) || !bytes.HasPrefix(w.in, w.out[at:]) {
		return fmt.Errorf("it is answered by %x", w.out)
	}
	return nil
}

// translated: nothing else is changed than what a translation changes, to what the plan explains,
// and checksums that were right are.
func (j *judge) translated(w way) error {
	if len(w.in) != len(w.out) {
		return fmt.Errorf("of %d bytes are %d", len(w.in), len(w.out))
	}
	if w.was.right(w.in) && !w.is.right(w.out) {
		return fmt.Errorf("its checksum was right and is not: %x", w.out)
	}
	if !w.was.summed(w.in) && w.is.summed(w.out) {
		return fmt.Errorf("it had no checksum and has one: %x", w.out)
	}
	if !w.was.v6 && w.was.end > 0 && w.is.end == 0 {
		return fmt.Errorf("its header's checksum was right and is not: %x", w.out)
	}
	if at, is := w.was.isError(w.in); is {
		return j.quoted(w, at)
	}
	if err := onlyChanged(w.in, w.out, changeable(w.was, w.in, w.egress, true)); err != nil {
		return err
	}
	return j.explained(w.egress, w.was.proto, w.was.later, endsIn(w.was, w.in), endsIn(w.is, w.out))
}

// quoted is translated for an ICMP error, which quotes a packet of the other direction.
func (j *judge) quoted(w way, at int) error {
	was, ok := headersOf(w.in[at:])
	is, _ := headersOf(w.out[at:])
	if !ok || was.l4 == 0 {
		return errors.New("it quotes no packet, and is changed")
	}
	places := changeable(w.was, w.in, w.egress, false)
	for _, source := range []bool{false, true} {
		for _, p := range changeable(was, w.in[at:], source, true) {
			places = append(places, [2]int{at + p[0], at + p[1]})
		}
	}
	if err := onlyChanged(w.in, w.out, places); err != nil {
		return err
	}
	before, after := turned(endsIn(was, w.in[at:])), turned(endsIn(is, w.out[at:]))
	if err := j.explained(w.egress, was.proto, false, before, after); err != nil {
		return fmt.Errorf("what it quotes, turned round: %w", err)
	}
	outer, inner, old := w.is.dst, after[1].Addr(), w.was.dst
	if w.egress {
		outer, inner, old = w.is.src, after[0].Addr(), w.was.src
	}
	if outer != old && outer != inner {
		return fmt.Errorf("it has %s for %s, and what it quotes %s", outer, old, inner)
	}
	return nil
}

// changeable are the places of a packet where a translation may change it: the source, or the
// destination.
func changeable(h headers, b []byte, source, ports bool) (out [][2]int) {
	at := addressAt(h.v6, source)
	out = append(out, [2]int{at, at + h.src.BitLen()/8})
	if !h.v6 {
		out = append(out, [2]int{10, 12})
	}
	if _, _, has := h.portsOf(b); has && ports {
		out = append(out, [2]int{h.l4, h.l4 + 4})
	}
	offset := map[objects.Protocol]int{objects.TCP: 16, objects.UDP: 6, icmp4: 2, icmp6: 2}[h.proto]
	if offset > 0 && h.l4 > 0 && !h.later {
		out = append(out, [2]int{h.l4 + offset, h.l4 + offset + 2})
	}
	return out
}

func onlyChanged(in, out []byte, places [][2]int) error {
	want := bytes.Clone(in)
	for _, p := range places {
		if p[1] <= len(out) {
			copy(want[p[0]:p[1]], out[p[0]:p[1]])
		}
	}
	if !bytes.Equal(want, out) {
		return fmt.Errorf("more of it is changed than addresses, ports and checksums: %x", out)
	}
	return nil
}

// endsIn are source and destination, without ports where there are none.
func endsIn(h headers, b []byte) [2]netip.AddrPort {
	sport, dport, _ := h.portsOf(b)
	return [2]netip.AddrPort{netip.AddrPortFrom(h.src, sport), netip.AddrPortFrom(h.dst, dport)}
}

func turned(e [2]netip.AddrPort) [2]netip.AddrPort { return [2]netip.AddrPort{e[1], e[0]} }

// explained: the destination at ingress becomes an endpoint's of what it was, or the client's whom
// an endpoint answers; the source at egress becomes that of the frontend of the endpoint that it
// was, or the node's for a client that speaks to an endpoint.
func (j *judge) explained(egress bool, proto objects.Protocol, later bool, was, is [2]netip.AddrPort) error {
	src, dst := 0, 1
	var so bool
	if egress {
		answer := j.endpoint(was[src], is[src], proto, later) && j.clients[was[dst].Addr()]
		masqueraded := j.anyEndpoint(was[dst], later) && is[dst] == was[dst] && j.node(is[src].Addr()) && j.clients[was[src].Addr()]
		so = is[dst].Addr() == was[dst].Addr() && (answer || masqueraded)
	} else {
		forward := j.endpoint(is[dst], was[dst], proto, later)
		back := j.anyEndpoint(was[src], later) && is[src] == was[src] && j.node(was[dst].Addr()) && j.clients[is[dst].Addr()]
		so = is[src].Addr() == was[src].Addr() && (forward || back)
	}
	if !so || proto != objects.TCP && proto != objects.UDP {
		return fmt.Errorf("protocol %d from %s to %s becomes one from %s to %s", proto, was[src], was[dst], is[src], is[dst])
	}
	return nil
}
