package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// DefaultMark is the packet mark's bit that asks postrouting to masquerade. It is
// set and taken away within the first packet's way through the node. Taken by
// others: 0x4000 and 0x8000 (kube-proxy, kubelet), 0x2000 (CNI portmap), 0x0f00
// (Cilium), the upper half (Calico).
const DefaultMark = 0x1000

// Render is every rule of a plan as text, the form of the golden files and of
// Dump: family, table, chain, number in the chain, rule. Chains with a rule for
// each frontend have no numbers, their order means nothing.
func Render(p *plan.Plan) string {
	var out []string
	for _, v6 := range []bool{false, true} {
		out = append(out, complete(v6, p, DefaultMark).lines(v6)...)
	}
	return strings.Join(out, "")
}

// Script is a plan's rules of one family as iptables-restore --noflush takes them, from
// nothing.
func Script(p *plan.Plan, v6 bool) string {
	return text(diff(model{}, complete(v6, p, DefaultMark)).lines())
}

func complete(v6 bool, p *plan.Plan, mark uint32) model {
	return render(v6, p.Node, mark, groups(plan.Index(p), v6), slices.Compact(plan.HealthPorts(p)))
}

// groups gathers one family's frontends that share endpoint chains, in order of
// their keys.
func groups(index map[plan.Key]*plan.Frontend, v6 bool) map[plan.Key][]plan.Frontend {
	out := map[plan.Key][]plan.Frontend{}
	for k, f := range index {
		if k.IPv6 == v6 {
			out[groupOf(*f)] = append(out[groupOf(*f)], *f)
		}
	}
	for _, fs := range out {
		sortFrontends(fs)
	}
	return out
}

func sortFrontends(fs []plan.Frontend) {
	slices.SortFunc(fs, func(a, b plan.Frontend) int { return a.Key.Compare(b.Key) })
}

// groupOf is what a frontend shares its endpoint chains with; a frontend that
// names nothing is alone.
func groupOf(f plan.Frontend) plan.Key {
	if f.Group == (plan.Key{}) {
		return f.Key
	}
	return f.Group
}

// render is the model of some groups of one family and of some ports of health checks, with the
// constant part.
func render(v6 bool, node plan.Node, mark uint32, groups map[plan.Key][]plan.Frontend, healthPorts []uint16) model {
	m := baseModel(v6, node, mark)
	for _, port := range healthPorts {
		m.chain(filterTable, health).add(plan.Key{}, fmt.Sprintf("-p tcp -m tcp --dport %d -j ACCEPT", port))
	}
	for group, fs := range groups {
		g := renderer{model: m, node: node, v6: v6, group: group, remembered: remembered(fs)}
		for _, f := range fs {
			g.nat(f)
			g.refusal(f)
		}
	}
	return m
}

// baseModel is what does not depend on any Service.
func baseModel(v6 bool, node plan.Node, mark uint32) model {
	m := model{}
	var none plan.Key
	for _, name := range []string{"PREROUTING", "OUTPUT"} {
		m.chain(natTable, name).add(none, "-j ", services)
	}
	m.chain(natTable, "POSTROUTING").add(none, "-j ", postrouting)
	for _, name := range []string{"INPUT", "FORWARD", "OUTPUT"} {
		m.chain(filterTable, name).add(none, "-m conntrack --ctstate NEW -j ", filter)
	}
	m.chain(natTable, nodePorts)
	for _, name := range []string{refuse, refusePorts, unclaimed, health} {
		m.chain(filterTable, name)
	}
	bit := fmt.Sprintf("0x%x", mark)
	m.chain(filterTable, "INPUT").add(none, "-p tcp -j ", health)
	m.chain(filterTable, "FORWARD").add(none, "-m conntrack --ctstate DNAT -j ", forward)
	fwd := m.chain(filterTable, forward)
	fwd.add(none, "-m mark --mark ", bit, "/", bit, " -j ACCEPT")
	fwd.add(none, "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
	m.chain(natTable, masq).add(none, "-j MARK --set-xmark ", bit, "/", bit)
	post := m.chain(natTable, postrouting)
	post.add(none, "-m mark ! --mark ", bit, "/", bit, " -j RETURN")
	post.add(none, "-j MARK --set-xmark ", bit, "/0x0")
	post.add(none, "-j MASQUERADE --random-fully")
	port := "icmp-port-unreachable"
	if v6 {
		port = "icmp6-port-unreachable"
	}
	rej := m.chain(filterTable, reject)
	rej.add(none, "-p tcp -j REJECT --reject-with tcp-reset")
	rej.add(none, "-j REJECT --reject-with ", port)
	m.addNode(v6, node)
	return m
}

// addNode adds the rules that all Services share. The order in the filter is
// Resolve's: what claims an address and port, then node ports, then the rest of
// the ClusterIPs, then addresses no Service has. What some dnat has sent
// elsewhere is none of its business.
func (m model) addNode(v6 bool, node plan.Node) {
	var none plan.Key
	off := m.chain(natTable, masqOff)
	for _, from := range localPods(node, v6) {
		off.add(none, from, "-j RETURN")
	}
	off.add(none, "-j ", masq)
	front := m.chain(natTable, services)
	f := m.chain(filterTable, filter)
	f.add(none, "-m conntrack --ctstate DNAT -j RETURN")
	f.add(none, "-j ", refuse)
	for _, a := range node.Addrs {
		if a.Is6() == v6 {
			front.last = append(front.last, rule{text: host("-d", a) + "-g " + nodePorts})
			f.add(none, host("-d", a), "-j ", refusePorts)
		}
	}
	f.add(none, "-j ", unclaimed)
	for _, p := range ofFamily(node.ServiceCIDRs, v6) {
		f.add(none, in("-d", p), "-j DROP")
	}
}

func ofFamily(ps []netip.Prefix, v6 bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool { return p.Addr().Is6() != v6 })
}

// remembered are all endpoints that a group's affinity may name, sorted.
func remembered(fs []plan.Frontend) []plan.Endpoint {
	var out []plan.Endpoint
	for _, f := range fs {
		if f.Affinity <= 0 {
			continue
		}
		out = append(out, f.Draining...)
		out = append(out, f.Outside.Endpoints...)
		if f.Inside != nil {
			out = append(out, f.Inside.Endpoints...)
		}
	}
	slices.SortFunc(out, plan.Endpoint.Compare)
	return slices.CompactFunc(out, plan.Endpoint.SamePlace)
}

// renderer adds the frontends of one group to a model.
type renderer struct {
	model
	node       plan.Node
	v6         bool
	group      plan.Key
	remembered []plan.Endpoint
}

// nat renders a frontend's way to its endpoints. The jumps are gotos: what a
// frontend claims goes to no other, whether it has endpoints or not.
func (g *renderer) nat(f plan.Frontend) {
	if f.Key.IsWildcard() {
		return
	}
	to := goTo(g.entry(f))
	switch {
	case !f.Key.IsNodePort():
		g.chain(natTable, services).add(f.Key, match(f.Key), to)
	case to != "-j RETURN":
		g.chain(natTable, nodePorts).add(f.Key, match(f.Key), to)
	}
}

func goTo(name string) string {
	if name == "" {
		return "-j RETURN"
	}
	return "-g " + name
}

// entry is the chain a frontend's packets go to, empty if none is forwarded.
func (g *renderer) entry(f plan.Frontend) string {
	to := g.routes(f)
	if to == "" || !f.Restricted {
		return to
	}
	sources := ofFamily(f.Sources, g.v6)
	if len(sources) == 0 {
		return ""
	}
	name := chainName(kindFirewall, f.Key)
	for _, p := range sources {
		g.chain(natTable, name).add(f.Key, in("-s", p), goTo(to))
	}
	return name
}

// routes is the chain that chooses between inside and outside, or the only route's.
func (g *renderer) routes(f plan.Frontend) string {
	if f.Inside == nil {
		return g.route(f, f.Outside, kindService, false)
	}
	outside, inside := g.route(f, f.Outside, kindLocal, false), g.route(f, *f.Inside, kindService, true)
	if outside == "" && inside == "" {
		return ""
	}
	name := chainName(kindExternal, f.Key)
	g.fork(g.chain(natTable, name), f.Key, goTo(inside), goTo(outside))
	return name
}

// localPods match what is from a pod of this node.
func localPods(node plan.Node, v6 bool) (out []string) {
	for _, p := range ofFamily(node.LocalPods, v6) {
		out = append(out, in("-s", p))
	}
	if name, prefix := node.LocalLink.Begins(); prefix {
		out = append(out, "-i "+name+"+ ")
	} else if name != "" {
		out = append(out, "-i "+name+" ")
	}
	return out
}

// fork sends what comes from the node itself and its pods one way, and the rest
// another.
func (g *renderer) fork(c *chain, of plan.Key, inside, outside string) {
	for _, from := range localPods(g.node, g.v6) {
		c.add(of, from, inside)
	}
	c.add(of, "-m addrtype --src-type LOCAL ", inside)
	c.add(of, outside)
}

// route renders the chain that picks an endpoint: the one a client had, or any
// with the same probability.
func (g *renderer) route(f plan.Frontend, r plan.Route, kind string, inside bool) string {
	if r.Action != plan.Forward || len(r.Endpoints) == 0 {
		return ""
	}
	r.Endpoints = plan.Sorted(r.Endpoints)
	name := chainName(kind, f.Key)
	c := g.chain(natTable, name)
	switch r.Masquerade {
	case plan.MasqAlways:
		c.add(f.Key, "-j ", masq)
	case plan.MasqOffCluster:
		c.add(f.Key, "-j ", masqOff)
	case plan.MasqNode:
		c.add(f.Key, "-m addrtype --src-type LOCAL -j ", masq)
	}
	to := make([]string, len(r.Endpoints))
	for i, e := range r.Endpoints {
		to[i] = g.endpoint(f, e, e.MayBeClient(inside))
	}
	if f.Affinity > 0 {
		g.recall(c, f, r, to)
	}
	for i := range to {
		if left := len(to) - i; left > 1 {
			c.add(f.Key, random(left), "-j ", to[i])
		} else {
			c.add(f.Key, "-j ", to[i])
		}
	}
	return name
}

// recall sends a client to the endpoint it had. Where it had none of this
// route's, it is forgotten by the group's others: there is one memory.
func (g *renderer) recall(c *chain, f plan.Frontend, r plan.Route, to []string) {
	within := fmt.Sprintf("--rcheck --seconds %d --reap", max(1, int64(f.Affinity.Seconds())))
	for i, e := range r.Endpoints {
		c.add(f.Key, recent(g.v6, within, listName(g.group, e)), "-j ", to[i])
	}
	for _, e := range g.remembered {
		if _, used := slices.BinarySearchFunc(r.Endpoints, e, plan.Endpoint.Compare); !used {
			c.add(f.Key, strings.TrimSuffix(recent(g.v6, "--remove", listName(g.group, e)), " "))
		}
	}
}

// endpoint renders an endpoint's chain, shared by the group. All that is in the
// chain is in its name, so frontends that disagree have two.
func (g *renderer) endpoint(f plan.Frontend, e plan.Endpoint, mayBeClient bool) string {
	name := chainName(kindEndpoint, g.group, f.Key.Protocol, e.Addr, e.Port, mayBeClient, f.Affinity > 0)
	c := g.chain(natTable, name)
	if len(c.rules) > 0 {
		return name
	}
	if mayBeClient {
		c.add(f.Key, host("-s", e.Addr), "-j ", masq)
	}
	set := ""
	if f.Affinity > 0 {
		set = recent(g.v6, "--set", listName(g.group, e))
	}
	at := ip(e.Addr)
	if g.v6 {
		at = "[" + at + "]"
	}
	c.add(f.Key, protocol(f.Key.Protocol), set, "-j DNAT --to-destination ", fmt.Sprintf("%s:%d", at, e.Port))
	return name
}
