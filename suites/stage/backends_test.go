package stage

import (
	"slices"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
)

// Who runs a backend knows of it what the agent says: all there are, and what each may do.
func TestBackendsAreTheAgents(t *testing.T) {
	theirs := backend.All(0)
	for _, b := range cluster.Backends() {
		a, ok := theirs[b.Name]
		if !ok {
			t.Errorf("the agent has no backend %s", b.Name)
			continue
		}
		delete(theirs, b.Name)
		if b.CgroupFlag != "" != a.Sockets || a.NoNode != "" && !a.Sockets {
			t.Errorf("backend %s is told of the node's cgroup by %q; the agent has programs at sockets: %t, and without does not serve the node: %q", b.Name, b.CgroupFlag, a.Sockets, a.NoNode)
		}
		want := []string{}
		for _, c := range a.Needs(t.Context(), backend.Options{Flavour: iptables.NFT}) {
			want = append(want, c.String())
		}
		if got := append([]string{"NET_ADMIN"}, b.Capabilities...); !slices.Equal(got, want) {
			t.Errorf("backend %s is given %q, and needs %q", b.Name, got, want)
		}
	}
	if host.Pins != ebpf.Root {
		t.Errorf("what is pinned is looked for in %s, and is in %s", host.Pins, ebpf.Root)
	}
	for name := range theirs {
		t.Errorf("nobody runs the agent's backend %s", name)
	}
}

// What backends need of a kernel is what the host knows how to look for.
func TestBackendsNeedWhatCanBeLookedFor(t *testing.T) {
	for _, b := range cluster.Backends() {
		if err := host.Supports(t.Context(), b.Kernel); len(b.Kernel) == 0 || err != nil && strings.Contains(err.Error(), "nobody knows") {
			t.Errorf("backend %s needs %q: %v", b.Name, b.Kernel, err)
		}
	}
	if err := host.Supports(t.Context(), []string{"magic"}); err == nil || !strings.Contains(err.Error(), `nobody knows how to look for "magic"`) {
		t.Errorf("magic: %v", err)
	}
}
