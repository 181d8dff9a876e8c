package ebpf_test

import (
	"errors"
	"path/filepath"
	"testing"

	cilium "github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/fixtures/need"
)

// Who alters programs is asked for those of devices and for those at sockets, also where some of this build
// are pinned; where it cannot, none are loaded.
func TestAlter(t *testing.T) {
	t.Parallel()
	need.Root(t)
	w := socketWorld(t, planOf(service{number: 1}))
	var asked []string
	cfg := w.cfg
	cfg.Alter = func(spec *cilium.CollectionSpec) error {
		for _, name := range []string{"plumb_ingress", "plumb_connect4"} {
			if p := spec.Programs[name]; p != nil {
				asked, p.Name = append(asked, name), "altered"
			}
		}
		return nil
	}
	apply(t, started(t, cfg), nil, planOf(service{number: 1}))
	if len(asked) != 2 || asked[0] != "plumb_ingress" || asked[1] != "plumb_connect4" {
		t.Errorf("asked for the programs of %q", asked)
	}
	for _, pattern := range []string{"plumb_ingress_[0-9a-f]*", "plumb_connect4_[0-9a-f]*"} {
		if name := pinnedAs(t, filepath.Join(ebpf.LayoutFolder(cfg.Pins), pattern)); name != "altered" {
			t.Errorf("%s is %s: what was pinned has been taken over", pattern, name)
		}
	}
	for _, at := range []string{"plumb_ingress", "plumb_connect4"} {
		no := errors.New("nothing to alter")
		cfg.Alter = func(spec *cilium.CollectionSpec) error {
			if spec.Programs[at] == nil {
				return nil
			}
			return no
		}
		target := ebpf.New(cfg)
		if err := target.Apply(t.Context(), nil, planOf()); !errors.Is(err, no) {
			t.Errorf("where %s cannot be altered: %v", at, err)
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}
}

// pinnedAs is the kernel's name of the program that is pinned.
func pinnedAs(t *testing.T, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 1 {
		t.Fatalf("pins %s: %q, %v", pattern, paths, err)
	}
	p, err := cilium.LoadPinnedProgram(paths[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Name
}
