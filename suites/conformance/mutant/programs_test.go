package mutant

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/dptest"
	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
)

func TestMain(m *testing.M) {
	if err := need.OwnBPFFS(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Each alteration finds what it is about, and the kernel takes the programs that come of it.
func TestProgramsAltered(t *testing.T) {
	need.Root(t)
	n := dptest.NewNet(t)
	n.Sockets(t)
	pins, err := dataplane.Folder(dataplane.Root, n.FD())
	if err != nil {
		t.Fatal(err)
	}
	cgroup, err := dptest.Cgroup(n.FD())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(programMutations())) {
		t.Run(name, func(t *testing.T) {
			c := &changes{}
			programMutations()[name](c)
			changed := false
			alter := func(spec *ebpf.CollectionSpec) error {
				before := written(spec)
				err := c.programs(spec)
				changed = changed || written(spec) != before
				return err
			}
			target := dataplane.New(dataplane.Config{
				Logger: slog.New(slog.DiscardHandler), NetNS: n.FD(), Pins: pins, Cgroup: cgroup, Alter: alter,
				Sizes: dataplane.Sizes{Frontends: 1, Endpoints: 1, Sources: 1, Clients: 1, Connections: 1},
			})
			err := target.Apply(t.Context(), nil, &plan.Plan{})
			if err := errors.Join(err, target.Close(), dataplane.Clean(n.FD(), pins, true)); err != nil {
				t.Error(err)
			}
			if !changed {
				t.Error("the programs are as they were")
			}
		})
	}
}

// written are all instructions of an object, and the sizes of its maps.
func written(spec *ebpf.CollectionSpec) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		fmt.Fprintln(&b, name, spec.Programs[name].Instructions)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		fmt.Fprintln(&b, name, spec.Maps[name].MaxEntries)
	}
	return b.String()
}

// The agent gets what a mutation does to programs, and does not take those of before over.
func TestProgramsHandedOn(t *testing.T) {
	var got func(*ebpf.CollectionSpec) error
	b := (&changes{programs: func(*ebpf.CollectionSpec) error { return os.ErrInvalid }}).backend(backend.Backend{
		Start: func(o backend.Options, _ *slog.Logger) backend.Running {
			got = o.Alter
			return backend.Running{}
		},
	})
	b.Start(backend.Options{}, slog.New(slog.DiscardHandler))
	if got == nil || got(nil) != os.ErrInvalid {
		t.Error("the backend was not told how to alter its programs")
	}
}

// What finds nothing is an error, of the object that it is about.
func TestAlteredFindsNothing(t *testing.T) {
	spec := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{devices: {Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1).WithSymbol(devices), asm.Return()}}}}
	for _, tc := range []struct {
		object, function string
		wrong            bool
	}{
		{devices, devices, false}, {devices, "never", true}, {sockets, "never", false}, {everywhere, "never", true},
	} {
		c := &changes{}
		altered(tc.object, returning(tc.function, 0))(c)
		if err := c.programs(spec); (err != nil) != tc.wrong {
			t.Errorf("%s in %q: %v", tc.function, tc.object, err)
		}
	}
}
