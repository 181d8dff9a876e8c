package row

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/fixtures/cluster"
)

func TestParse(t *testing.T) {
	got, err := Parse("kube-proxy:iptables, plumb-nftables:ignore+reject")
	want := []Row{{Dataplane: "kube-proxy", Mode: "iptables"}, {Dataplane: "plumb-nftables", Mode: "nftables", Terminating: "ignore", NoLocal: "reject"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = Parse("existing,manifest:some/cilium.yaml")
	if err != nil || got[0].String() != "existing" || got[0].Own() || got[1].String() != "manifest cilium.yaml" || got[1].Mode != "some/cilium.yaml" {
		t.Errorf("rows of others: %v, %v", got, err)
	}
	if all, err := Parse("all"); err != nil || len(all) != len(cluster.Backends())+4 {
		t.Errorf("all: %v, %v", all, err)
	}
	for list, msg := range map[string]string{
		"manifest:": "unknown dataplane row",
		"plumb-nft": "unknown dataplane row", "": "unknown dataplane row",
		"plumb-nftables, plumb-nftables:fallback": "named twice",
		"kube-proxy:iptables,kube-proxy:iptables": "named twice",
	} {
		if _, err := Parse(list); err == nil || !strings.Contains(err.Error(), msg) {
			t.Errorf("rows %q: %v, want %q", list, err, msg)
		}
	}
	def, err := Parse(Names(Default()))
	if err != nil || len(def) != len(cluster.Backends())+4 || def[0].String() != "plumb-nftables fallback" || def[len(def)-2].Own() {
		t.Errorf("default rows %v, %v", def, err)
	}
}
