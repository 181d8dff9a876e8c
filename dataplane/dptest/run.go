//go:build linux

package dptest

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Target is what the contract needs of a backend at work; it is loop's.
type Target interface {
	Apply(ctx context.Context, old, new *plan.Plan) error
}

// Backend is a backend under test.
type Backend struct {
	// Section is the part of the case files that holds its rendering.
	Section string
	Render  func(*plan.Plan) string
	// New makes a Target for the namespace with this descriptor.
	New   func(t *testing.T, netns int) Target
	Dump  func(netns int) (string, error)
	Clean func(netns int) error
}

// Golden compares the plan, the oracle and the rendering of every case with its
// file; update rewrites what a program may write.
func Golden(t *testing.T, dir string, b Backend, update bool) {
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			compareSection(t, c, b.Section, b.Render(c.Plan()), update)
		})
	}
}

// Plans compares the plan of every case with its file and the oracle with the
// packets.
func Plans(t *testing.T, dir string, update bool) {
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			compareSection(t, c, "plan", c.Plan().String(), update)
			for _, row := range c.Packets {
				if got := row.Resolve(c.Plan()); got.Outcome() != row.Outcome() {
					t.Errorf("%s: the oracle says %s", row.Line, got.Outcome())
				}
			}
		})
	}
}

func compareSection(t *testing.T, c *Case, section, got string, update bool) {
	t.Helper()
	if update {
		if err := c.Update(section, got); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(c.Section(section), got); diff != "" {
		t.Errorf("section %s (-file +now; if it should change, run with -update):\n%s", section, diff)
	}
}

// Packets applies every case and sends its packets through the kernel. Along the
// way: the kernel holds what is rendered, a second Apply changes nothing, a
// restarted Target takes over without a change, and shrinking to nothing leaves
// nothing. It needs root.
func Packets(t *testing.T, dir string, b Backend) {
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	network := NewNet(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { packets(t, network, c, b) })
	}
}

func packets(t *testing.T, network *Net, c *Case, b Backend) {
	ctx, fd, p := t.Context(), network.Node.FD(), c.Plan()
	target := b.New(t, fd)
	apply(t, target, nil, p)
	compareDump(t, b, fd, b.Render(p), "after the first apply")
	if err := network.Forget(); err != nil {
		t.Fatal(err)
	}
	srv, err := network.serve(ctx, c.Packets)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for _, row := range c.Packets {
		got, err := network.Observe(ctx, row)
		if err != nil {
			t.Errorf("send packet: %v", err)
			continue
		}
		if got.Outcome() != row.Outcome() {
			t.Errorf("%s: the kernel did %s", row.Line, got.Outcome())
		}
	}
	apply(t, target, p, p)
	compareDump(t, b, fd, b.Render(p), "after the second apply")
	again := b.New(t, fd)
	apply(t, again, nil, p)
	compareDump(t, b, fd, b.Render(p), "after a restart")
	apply(t, again, p, &plan.Plan{})
	compareDump(t, b, fd, "", "after shrinking to nothing")
}

// Sequence goes from case to case by difference, twice round so that every
// ordered pair of neighbours occurs warm, and checks that the kernel ends with
// what each case renders, whatever was there before.
func Sequence(t *testing.T, dir string, b Backend) {
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	fd := NewNet(t).Node.FD()
	target, old := b.New(t, fd), &plan.Plan{}
	apply(t, target, nil, old)
	backwards := slices.Clone(cases)
	slices.Reverse(backwards)
	for _, c := range append(cases, backwards...) {
		p := c.Plan()
		apply(t, target, old, p)
		compareDump(t, b, fd, b.Render(p), "at case "+c.Name)
		apply(t, b.New(t, fd), nil, p) // a restart on top
		compareDump(t, b, fd, b.Render(p), "after a restart at case "+c.Name)
		old = p
	}
	if err := b.Clean(fd); err != nil {
		t.Fatal(err)
	}
	compareDump(t, b, fd, "", "after cleaning up")
}

func apply(t *testing.T, target Target, old, new *plan.Plan) {
	t.Helper()
	if err := target.Apply(t.Context(), old, new); err != nil {
		t.Fatal(err)
	}
}

func compareDump(t *testing.T, b Backend, fd int, want, when string) {
	t.Helper()
	got, err := b.Dump(fd)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(unordered(want), unordered(got)); diff != "" {
		t.Errorf("kernel %s (-want +got):\n%s", when, diff)
	}
}

// slotNumber is the last field of a slot's key. Which endpoint has which slot
// depends on history and means nothing; that the slots are 0..n-1 does.
var slotNumber = regexp.MustCompile(`^(\S+ \S+-slots .*) \. (\d+) : (.*)$`)

// unordered splits slots into the numbers used and the endpoints held.
func unordered(dump string) []string {
	var out []string
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(line, "\n")
		if m := slotNumber.FindStringSubmatch(line); m != nil {
			out = append(out, m[1]+" number "+m[2], m[1]+" holds "+m[3])
			continue
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
