package nftables

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Path is the way a packet to a frontend of the plan takes through the chains,
// maps and sets, as text. Every element is asked of the kernel by its key: what
// is shown is what is there, and what is missing is shown as missing.
func Path(p *plan.Plan, key plan.Key, netns int) (string, error) {
	f, ok := plan.Index(p)[key]
	if !ok {
		return "", fmt.Errorf("show path of %s: no such frontend", key)
	}
	c, err := dial(netns, 0)
	if err != nil {
		return "", fmt.Errorf("show path of %s: %w", key, err)
	}
	defer c.Close()
	t := &tracer{conn: c, f: newBoth().by(p.Node.LocalLink).of(key.IPv6), at: kernelFrontend{Frontend: *f}, key: frontendKey(key)}
	fmt.Fprintf(&t.out, "%s\ntable %s %s\n", key, t.f.text, TableName)
	if key.IsWildcard() {
		t.wildcard()
	} else {
		t.frontend(p.Node)
	}
	if t.err != nil {
		return "", fmt.Errorf("show path of %s: %w", key, t.err)
	}
	return t.out.String(), nil
}

// tracer writes a path. After the first error it does nothing more.
type tracer struct {
	conn *conn
	f    family
	at   kernelFrontend
	key  string
	out  strings.Builder
	err  error
}

func (t *tracer) line(depth int, format string, args ...any) {
	fmt.Fprintf(&t.out, strings.Repeat("  ", depth)+format+"\n", args...)
}

// get asks for one element.
func (t *tracer) get(set setID, key string) (string, bool) {
	if t.err != nil {
		return "", false
	}
	e, ok, err := t.conn.element(t.f, set, key)
	if err != nil {
		t.err = fmt.Errorf("element of set %s: %w", t.f.sets[set].name, err)
	}
	return e.val, ok
}

// look shows one element.
func (t *tracer) lookup(depth int, set setID, key string) (string, bool) {
	val, ok := t.get(set, key)
	spec := t.f.sets[set]
	kind := "set"
	if spec.isMap() {
		kind = "map"
	}
	switch {
	case !ok:
		t.line(depth, "%s %s: nothing for %s", kind, spec.name, keyText(key, spec))
	case spec.isVerdict():
		t.line(depth, "map %s: %s %s", spec.name, spec.verb(), val)
	case spec.isMap():
		t.line(depth, "map %s: %s -> %s", spec.name, keyText(key, spec), fields(val, spec.data))
	default:
		t.line(depth, "set %s: has %s", spec.name, keyText(key, spec))
	}
	return val, ok
}

func (t *tracer) wildcard() {
	t.line(1, "chains forward, leave (what no dnat took, first packets)")
	if _, ok := t.lookup(2, setClusterIPs, string(t.at.Key.Addr.AsSlice())); ok {
		t.line(3, "goto %s", classReject.chainName())
	}
}

func (t *tracer) frontend(n plan.Node) {
	t.line(1, "chains prerouting, output (first packets)")
	depth := 2
	if t.at.Key.IsNodePort() {
		t.line(2, "destination in set %s", t.f.sets[setNodeAddrs].name)
		for _, a := range n.Addrs {
			if a.Is6() == t.f.v6 {
				t.lookup(3, setNodeAddrs, string(a.AsSlice()))
			}
		}
	} else if _, ok := t.get(setRestricted, t.key); ok {
		t.lookup(2, setRestricted, t.key)
		for _, p := range outermost(t.at.Sources) {
			t.lookup(3, setSources, rangeKey(t.key, p))
		}
		t.line(3, "other sources: drop")
	}
	if t.at.Inside != nil {
		t.line(depth, "from the node, or %s", t.local("source in"))
		t.route(depth+1, t.at.view(true), t.at.Inside.Endpoints)
		t.line(depth, "others")
		depth++
	}
	t.route(depth, t.at.view(false), t.at.Outside.Endpoints)
	t.after()
}

// local says who is of a local pod.
func (t *tracer) local(source string) string {
	if t.f.link != "" {
		return fmt.Sprintf("come by %s", t.f.link)
	}
	return fmt.Sprintf("%s set %s", source, t.f.sets[setLocalPods].name)
}

// route follows one view to its slots. The endpoints are those of the plan, to
// ask for their numbers.
func (t *tracer) route(depth int, v view, eps []plan.Endpoint) {
	val, ok := t.lookup(depth, v.fronts(), t.key)
	if !ok || len(val) != 4 {
		return
	}
	c := parseClass(val)
	if _, ok := t.lookup(depth, v.classes(), val); !ok {
		return
	}
	if c.guarded {
		t.line(depth, "chain %s: sources as above, then goto %s", c.chainName(), c.past().chainName())
	}
	if c.view != v {
		return
	}
	part := slotPart(t.key)
	if _, ok := t.lookup(depth+1, v.parts(), numberBytes(uint32(part))); !ok {
		return
	}
	if c.sticky {
		t.line(depth+1, "clients in map %s, by source and group", t.f.sets[setAffinity].name)
		for _, e := range eps {
			t.lookup(depth+2, v.slots(part), slotKey(t.key, endpointNumber(e)))
		}
	}
	t.line(depth+1, "random of %d", c.n)
	for i := range uint32(c.n) {
		t.lookup(depth+2, v.slots(part), slotKey(t.key, i))
	}
}

// after is what happens past the dnat.
func (t *tracer) after() {
	port := t.at.Key.IsNodePort()
	t.line(1, "chain postrouting, for memory input too (by the original destination)")
	timeouts, masq := setTimeouts, []setID{setMasqOffCluster, setMasqAlways, setMasqNode}
	if port {
		timeouts, masq = setTimeoutPorts, []setID{setMasqAlwaysPorts, setMasqNodePorts}
	}
	if val, ok := t.get(timeouts, t.key); ok {
		t.lookup(2, setLearning, protocolBytes(t.at.Key.Protocol))
		t.lookup(2, timeouts, t.key)
		t.lookup(2, setLearners, val)
		t.lookup(3, groupSet(port), t.key)
	}
	when := map[setID]string{
		setMasqOffCluster: "masquerade sources not " + t.local("in"),
		setMasqNode:       "masquerade the node's own", setMasqNodePorts: "masquerade the node's own",
		setMasqAlways: "masquerade", setMasqAlwaysPorts: "masquerade",
	}
	for _, set := range masq {
		if _, ok := t.get(set, t.key); ok {
			t.lookup(2, set, t.key)
			t.line(3, "%s", when[set])
		}
	}
	for _, e := range hairpinElements(t.at) {
		t.lookup(2, e.id.set, e.id.key)
	}
}

// element asks for one element by its key.
func (c *conn) element(f family, id setID, key string) (e Element, found bool, err error) {
	req := setRequest(f, id)
	at := req.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	req.element(f.sets[id], Element{id: elementID{key: key}})
	req.end(at)
	err = c.ask(f, unix.NFT_MSG_GETSETELEM, netlink.Acknowledge, req.bytes, func(_ uint16, a string) {
		attrs(attr(a, unix.NFTA_SET_ELEM_LIST_ELEMENTS), func(_ uint16, item string) {
			e, found = parseElement(f, id, item), true
		})
	})
	if errors.Is(err, unix.ENOENT) {
		return Element{}, false, nil
	}
	return e, found, err
}
