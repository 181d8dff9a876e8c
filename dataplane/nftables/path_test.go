package nftables_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// The path of every kind of frontend, as the kernel has it, and of one whose
// elements somebody has taken away.
func TestPath(t *testing.T) {
	ns := netns.ForTest(t, "path")
	p := everyKind()
	apply(t, newTarget(t, ns), nil, p)
	var out strings.Builder
	show := func(f plan.Frontend) {
		text, err := nftables.Path(p, f.Key, ns.FD())
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(text + "\n")
	}
	for _, f := range p.Services[name(4)].Frontends {
		show(f)
	}
	mustNft(t, ns, "delete element ip plumbline services { 10.96.0.10 . udp . 53 }")
	mustNft(t, ns, "delete element ip plumbline nodeport-slots-7 { udp . 30053 . 0x00000001 }")
	for _, f := range p.Services[name(4)].Frontends {
		if f.Key.Port == 53 && f.Kind == plan.ClusterIP || f.Key.Port == 30053 {
			show(f)
		}
	}
	if _, err := nftables.Path(p, plan.Key{Addr: addr("10.96.0.11"), Protocol: objects.TCP, Port: 1}, ns.FD()); err == nil {
		t.Error("the path of a frontend that the plan does not have")
	}
	golden := filepath.Join("testdata", "path.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("paths (-golden +now; if they should change, run with -update):\n%s", diff)
	}
}

// Where links tell which pods are the node's own, so does the path.
func TestPathByLink(t *testing.T) {
	ns := netns.ForTest(t, "path")
	p := everyKind()
	p.Node.LocalPods, p.Node.LocalLink = nil, "cali*"
	apply(t, newTarget(t, ns), nil, p)
	var all strings.Builder
	for _, f := range p.Services[name(4)].Frontends {
		text, err := nftables.Path(p, f.Key, ns.FD())
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(text)
	}
	for part, want := range map[string]bool{"from the node, or come by cali*\n": true, "masquerade sources not come by cali*\n": true, "local-pods": false} {
		if strings.Contains(all.String(), part) != want {
			t.Errorf("%q is shown: %t, want %t\n%s", part, !want, want, all.String())
		}
	}
}

func TestSCTP(t *testing.T) {
	ns := netns.ForTest(t, "sctp")
	if err := nftables.LoadConntrack(ns.FD()); err != nil {
		t.Fatal(err)
	}
	var got bool
	if err := ns.Do(func() error { got = nftables.SCTP(); return nil }); err != nil {
		t.Fatal(err)
	}
	raw, err := exec.CommandContext(t.Context(), "zcat", "/proc/config.gz").Output()
	if err != nil {
		t.Skipf("the kernel does not tell its configuration: %v", err)
	}
	if want := strings.Contains(string(raw), "CONFIG_NF_CT_PROTO_SCTP=y"); got != want {
		t.Errorf("SCTP is tracked: %t, the kernel's configuration says %t", got, want)
	}
}
