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

// Ours are held to the fallback they are meant to have, others to what is declared of them;
// upstream is what they are compared with.
func TestJudged(t *testing.T) {
	for name, want := range map[string]bool{
		"plumb-nftables": true, "plumb-nftables:ignore+drop": false, "kube-proxy:nftables": false, "existing": false, "manifest:x.yaml": false,
	} {
		r, err := Find(name)
		if err != nil || r.Judged() != want || (name != "plumb-nftables" && r.Name() != name) {
			t.Errorf("%s: judged %t, %q, %v", name, r.Judged(), r.Name(), err)
		}
		if r.Declared = true; !r.Judged() {
			t.Errorf("%s is not held to what is declared of it", name)
		}
	}
}

// A loss of a row fails the run where that is asked for, and of no other.
func TestFailOn(t *testing.T) {
	rows, err := Parse("plumb-nftables,plumb-nftables:ignore+drop,kube-proxy:nftables,existing")
	if err != nil {
		t.Fatal(err)
	}
	if err := FailOn(rows, []string{"kube-proxy:nftables", "plumb-nftables"}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, true, false} {
		if rows[i].Judged() != want {
			t.Errorf("%s: judged %v, want %v", rows[i], rows[i].Judged(), want)
		}
	}
	for name, want := range map[string]string{"kube-proxy:iptables": "not among the rows to run", "magic": "unknown dataplane row"} {
		if err := FailOn(rows, []string{name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
