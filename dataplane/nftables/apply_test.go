package nftables

import (
	"os/exec"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
	"log/slog"
	"net/netip"
)

func TestScratch(t *testing.T) {
	need.Program(t, "nft")
	ns := netns.ForTest(t, "scratch")
	tg := New(Config{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), NetNS: ns.FD()})
	eps := []plan.Endpoint{{Addr: netip.MustParseAddr("10.244.1.2"), Port: 8080, Local: true}, {Addr: netip.MustParseAddr("10.244.2.2"), Port: 8080}}
	p := &plan.Plan{
		Node: plan.Node{Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/48")}},
		Services: map[objects.Name]plan.Service{{Namespace: "a", Name: "b"}: {Frontends: []plan.Frontend{
			{Key: plan.Key{Kind: plan.ClusterIP, Addr: netip.MustParseAddr("10.96.0.10"), Protocol: 6, Port: 80}, Outside: plan.Route{Action: plan.Forward, Endpoints: eps, Masquerade: plan.MasqOffCluster}},
			{Key: plan.Key{Kind: plan.ClusterIP, Addr: netip.MustParseAddr("10.96.0.11"), Protocol: 6, Port: 80}, Outside: plan.Route{Action: plan.Reject}},
			{Key: plan.Key{Kind: plan.NodePort, Protocol: 6, Port: 30080}, Outside: plan.Route{Action: plan.Drop}, Inside: &plan.Route{Action: plan.Forward, Endpoints: eps, Masquerade: plan.MasqNode}},
		}}},
	}
	if err := tg.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	ns.Do(func() error {
		o, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
		t.Log(string(o), err)
		return nil
	})
	d, err := Dump(ns.FD())
	t.Log(d, err)
	tg2 := New(Config{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), NetNS: ns.FD()})
	if err := tg2.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	if err := tg2.Apply(t.Context(), p, &plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	d, err = Dump(ns.FD())
	t.Log("empty:", d, err)
	if err := Clean(ns.FD()); err != nil {
		t.Fatal(err)
	}
}
