package nftables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

const scriptHead = `# What plumb-nftables makes of a plan, to be read and checked with nft -c -f FILE, not to be
# loaded: rules that netlink takes and nft has no words for are comments, and numbers that
# travel in a packet's priority are all of type classid here.
`

// Script is a plan as text that nft reads: both tables, for a kernel that has none of them.
func Script(p *plan.Plan) string {
	elems := nodeElements(p.Node)
	fronts := kernelFrontends(p)
	for _, f := range fronts {
		elems = append(elems, f.elements(nil)...)
	}
	elems = append(elems, hairpinElements(fronts...)...)
	var b strings.Builder
	b.WriteString(scriptHead)
	for _, f := range newBoth().by(p.Node.LocalLink) {
		chains, rules := f.scriptChains(fronts)
		var mine []Element
		for _, e := range slices.Concat(elems, rules, f.partElements()) {
			if e.id.v6 == f.v6 {
				mine = append(mine, e)
			}
		}
		fmt.Fprintf(&b, "\ntable %s %s {\n", f.text, TableName)
		f.scriptSets(&b, mine, p.Node)
		for _, c := range slices.Concat(f.plainChains(), chains, f.baseChains()) {
			f.scriptChain(&b, c)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// scriptChains are the chains that only these frontends need, and the elements that lead to them.
func (f family) scriptChains(fronts []kernelFrontend) (chains []chain, leads []Element) {
	made, led := map[string]bool{classReject.chainName(): true, classDrop.chainName(): true}, map[elementID]bool{}
	need := func(set setID, key string, c chain) {
		if at := (elementID{v6: f.v6, set: set, key: key}); !led[at] {
			led[at] = true
			leads = append(leads, Element{at, c.name})
		}
		if !made[c.name] {
			made[c.name] = true
			chains = append(chains, c)
		}
	}
	learning := map[objects.Protocol]bool{}
	for _, at := range fronts {
		if at.Key.IPv6 != f.v6 {
			continue
		}
		for _, e := range at.classes() {
			need(e.view.classes(), e.class.bytes(), f.classChain(e.class))
		}
		if remembers(at.Frontend) {
			n := seconds(at.Affinity)
			need(setLearners, numberBytes(n), f.learnerChain(n))
			learning[at.Key.Protocol] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(learning)) {
		leads = append(leads, Element{elementID{v6: f.v6, set: setLearning, key: protocolBytes(p)}, chainLearn})
	}
	return chains, leads
}

func (f family) scriptSets(b *strings.Builder, elems []Element, n plan.Node) {
	bySet := map[setID][]string{}
	for _, e := range elems {
		if !e.id.set.isInterval() {
			bySet[e.id.set] = append(bySet[e.id.set], f.scriptElement(e))
		}
	}
	for id, prefixes := range map[setID][]netip.Prefix{setLocalPods: n.LocalPods, setServiceCIDRs: n.ServiceCIDRs} {
		for _, p := range outermost(prefixes) {
			if p.Addr().Is6() == f.v6 {
				bySet[id] = append(bySet[id], p.Masked().String())
			}
		}
	}
	for id := range setCount {
		s := f.sets[id]
		kind, types := "set", typeText(s.key)
		if s.isMap() {
			kind, types = "map", types+" : "+typeText(s.data)
		}
		fmt.Fprintf(b, "\t%s %s {\n\t\ttype %s\n", kind, s.name, types)
		switch {
		case s.learned:
			fmt.Fprintf(b, "\t\tsize %d\n\t\tflags dynamic,timeout\n", memorySize)
		case s.interval || s.ranges:
			b.WriteString("\t\tflags interval\n")
		}
		if all := bySet[id]; len(all) > 0 {
			slices.Sort(all)
			fmt.Fprintf(b, "\t\telements = { %s }\n", strings.Join(all, ",\n\t\t\t     "))
		}
		b.WriteString("\t}\n")
	}
}

func (f family) scriptElement(e Element) string {
	s := f.sets[e.id.set]
	key := literals(e.id.key, s.key)
	if s.ranges {
		n := len(e.id.key) / 2
		from, to := literals(e.id.key[:n], s.key), literals(e.id.key[n:], s.key)
		if key = from; from != to {
			key += "-" + to[strings.LastIndex(to, " ")+1:]
		}
	}
	switch {
	case s.isVerdict():
		return key + " : " + s.verb() + " " + e.val
	case s.isMap():
		return key + " : " + literals(e.val, s.data)
	}
	return key
}

// literals are concatenated values as nft reads them.
func literals(raw string, types []lib.SetDatatype) string {
	var out []string
	for _, t := range types {
		n := int(padded(t.Bytes))
		if len(types) == 1 {
			n = int(t.Bytes)
		}
		if t.Name == number.Name || t.Name == lib.TypeClassID.Name {
			v := native32(raw[:n])
			if t.Name == lib.TypeClassID.Name {
				v = be32(raw[:n])
			}
			out = append(out, fmt.Sprintf("%x:%x", v>>16, v&0xffff))
		} else {
			out = append(out, field([]byte(raw[:n]), t))
		}
		raw = raw[n:]
	}
	return strings.Join(out, " . ")
}

func typeText(types []lib.SetDatatype) string {
	var out []string
	for _, t := range types {
		if t.Name == number.Name {
			t = lib.TypeClassID
		}
		out = append(out, t.Name)
	}
	return strings.Join(out, " . ")
}

var hookNames = map[uint32]string{
	unix.NF_INET_PRE_ROUTING: "prerouting", unix.NF_INET_LOCAL_IN: "input", unix.NF_INET_FORWARD: "forward",
	unix.NF_INET_LOCAL_OUT: "output", unix.NF_INET_POST_ROUTING: "postrouting",
} // const

func (f family) scriptChain(b *strings.Builder, c chain) {
	fmt.Fprintf(b, "\tchain %s {\n", c.name)
	if c.hook != nil {
		fmt.Fprintf(b, "\t\ttype %s hook %s priority %d; policy accept;\n", c.hook.typ, hookNames[c.hook.num], c.hook.priority)
	}
	for _, r := range c.rules {
		text, reads := f.say(r)
		if !reads {
			text = "# " + text
		}
		fmt.Fprintf(b, "\t\t%s\n", text)
	}
	b.WriteString("\t}\n")
}
