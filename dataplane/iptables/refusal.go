package iptables

import (
	"slices"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// refusal renders what happens to a frontend's packets that nat sends nowhere.
// It is in the filter table: nat can neither drop nor reject, and there all that
// some dnat took has another destination already.
func (g *renderer) refusal(f plan.Frontend) {
	at := g.chain(filterTable, refuse)
	switch {
	case f.Key.IsWildcard():
		at = g.chain(filterTable, unclaimed)
	case f.Key.IsNodePort():
		at = g.chain(filterTable, refusePorts)
	}
	if v := g.verdict(f); v != "" {
		at.add(f.Key, match(f.Key), v)
	}
}

// verdict is the rule's target for a frontend, empty if it refuses nobody.
func (g *renderer) verdict(f plan.Frontend) string {
	outside := g.action(f, f.Outside)
	inside := outside
	if f.Inside != nil {
		inside = g.action(f, *f.Inside)
	}
	forwards := f.Outside.Action == plan.Forward && (f.Inside == nil || f.Inside.Action == plan.Forward)
	switch {
	case forwards && !f.Restricted:
		return ""
	case f.Restricted:
		return g.outOfRange(f, inside, outside)
	}
	return g.byPlace(f, inside, outside)
}

// outOfRange drops what is not from a frontend's source ranges.
func (g *renderer) outOfRange(f plan.Frontend, inside, outside string) string {
	sources := ofFamily(f.Sources, g.v6)
	v := g.byPlace(f, inside, outside)
	if v == drop || len(sources) == 0 {
		return drop
	}
	name := chainName(kindRefuse, f.Key)
	c := g.chain(filterTable, name)
	for _, p := range sources {
		c.add(f.Key, in("-s", p), v)
	}
	c.add(f.Key, drop)
	return "-g " + name
}

func (g *renderer) byPlace(f plan.Frontend, inside, outside string) string {
	if inside == outside {
		return outside
	}
	name := chainName(kindRefuseIn, f.Key)
	g.fork(g.chain(filterTable, name), f.Key, inside, outside)
	return "-g " + name
}

const drop = "-j DROP"

// action is a route's verdict on a packet that was not sent on. One that should
// have been meets this only while nat and filter change one after the other;
// dropped, it is sent again. But a packet whose endpoint is the very address it
// came to does not look sent on at all.
func (g *renderer) action(f plan.Frontend, r plan.Route) string {
	switch r.Action {
	case plan.Reject:
		return "-g " + reject
	case plan.Forward:
		if g.servesItself(f, r) {
			return "-j RETURN"
		}
	}
	return drop
}

func (g *renderer) servesItself(f plan.Frontend, r plan.Route) bool {
	return slices.ContainsFunc(r.Endpoints, func(e plan.Endpoint) bool {
		here := e.Addr == f.Key.Addr || f.Key.IsNodePort() && slices.Contains(g.node.Addrs, e.Addr)
		return here && e.Port == f.Key.Port
	})
}
