package conntrack

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// front is a frontend that forwards to endpoints, or refuses without any.
func front(kind plan.Kind, protocol objects.Protocol, at netip.AddrPort, to ...netip.AddrPort) plan.Frontend {
	f := plan.Frontend{Kind: kind, Key: plan.Key{IPv6: at.Addr().Is6(), Addr: at.Addr(), Protocol: protocol, Port: at.Port()}}
	if kind == plan.NodePort {
		f.Key.Addr = netip.Addr{}
	}
	f.Outside = route(to...)
	return f
}

func route(to ...netip.AddrPort) plan.Route {
	r := plan.Route{Action: plan.Reject}
	for _, e := range to {
		r.Action = plan.Forward
		r.Endpoints = append(r.Endpoints, plan.Endpoint{Addr: e.Addr(), Port: e.Port()})
	}
	return r
}

// with changes a frontend.
func with(f plan.Frontend, change func(*plan.Frontend)) plan.Frontend {
	change(&f)
	return f
}

func drains(to ...netip.AddrPort) func(*plan.Frontend) {
	return func(f *plan.Frontend) { f.Draining = route(to...).Endpoints }
}

// onlyFromElsewhere lets in a network of the family that nobody here is in.
func onlyFromElsewhere(f *plan.Frontend) {
	f.Restricted, f.Sources = true, prefixes("203.0.113.0/24")
	if f.Key.IPv6 {
		f.Sources = prefixes("2001:db8:203::/48")
	}
}

// planOf is a plan of one Service at a node with both families.
func planOf(fs ...plan.Frontend) *plan.Plan {
	node := plan.Node{Addrs: []netip.Addr{byFamily[false].node, byFamily[true].node}, LocalPods: prefixes("10.244.1.0/24", "fd00:10:244:1::/64")}
	return &plan.Plan{Node: node, Services: map[objects.Name]plan.Service{{Namespace: "ns", Name: "dns"}: {Frontends: fs}}}
}

// at is a plan with other node addresses.
func at(p *plan.Plan, addrs ...netip.Addr) *plan.Plan {
	p.Node.Addrs = addrs
	return p
}

// faulty are Flows of a kernel that is none, and what they log.
func faulty(k tracker) (*Flows, *strings.Builder) {
	log := &strings.Builder{}
	f := New(Config{Logger: slog.New(slog.NewTextHandler(log, nil)), ResetTCP: time.Nanosecond})
	f.kernel = k
	return f, log
}
