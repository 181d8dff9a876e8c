//go:build linux

package dptest

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

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
	// Faulty makes a Target that calls fault before each write, and where it can once that
	// is done, and fails with its error: nothing was written, or the word of it was lost. It
	// writes the changes of Interrupted in several parts, if it does so with larger ones.
	// Nil: the backend has no writes that can fail one by one.
	Faulty func(t *testing.T, netns int, fault func() error) Target

	// NoSCTP says why the backend has no SCTP, "" if it has: then cases with that
	// option are left out by name, and nothing random has it.
	NoSCTP string

	// ForgetsAffinity says why a restart ends the memory of session affinity, "" if
	// it does not.
	ForgetsAffinity string

	// EndsConnections says why open connections end with the Target, and no new ones
	// are served before another one is there; "" if its rules go on alone.
	EndsConnections string

	// NoNode says why connections of the node itself are not served, "" if they are: then
	// rows from the node are left out, but for those that no frontend claims and those that
	// one meets with silence; with Sockets it says which are not, and only those are left out that a
	// frontend at one of the node's addresses meets with silence, and those of pods to a frontend one
	// of whose endpoints a device would take for a Service's, where it would masquerade and a socket
	// would not. Unasked says how many.
	NoNode  string
	Unasked Unasked

	// Sockets says that the backend translates what begins on the node at its socket: its Targets are
	// attached to Cgroup of their namespace. Then the cases of plan.Options.Sockets are asked, and
	// every row as Resolve has it with that option, which those cases hold Resolve to.
	Sockets bool

	// Forget drops what the backend itself remembers of connections, in the namespace with
	// this descriptor; nil: they are conntrack's.
	Forget func(netns int) error

	// kernel stands in for Net in tests of the contract itself.
	kernel func(t *testing.T) kernel
}

// kernel is where Targets work and packets are sent.
type kernel interface {
	FD() int
	Forget() error
	Check(ctx context.Context, p *plan.Plan, rows []Row, m *Memory) error
	Spread(ctx context.Context, r Row, n int) (map[netip.AddrPort]int, error)
	Visits(ctx context.Context, rows []Row, f func(visit func(Row) (netip.AddrPort, error)) error) error
	Hold(ctx context.Context, rows []Row) ([]conversation, error)
}

// cases are those that the backend can be given.
func (b Backend) cases(t *testing.T, dir string) []*Case {
	t.Helper()
	all, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c *Case) bool { return b.lacks(c) != "" })
}

// lacks is why the backend cannot be given a case, "" if it can.
func (b Backend) lacks(c *Case) string {
	switch {
	case c.Options.SCTP:
		return b.NoSCTP
	case c.Options.Sockets && !b.Sockets:
		return "this backend has no programs at sockets"
	}
	return ""
}

// rows are those that the backend can be asked about: of the node's own all that no frontend
// claims, and those that a frontend of another place meets with silence.
func (b Backend) rows(p *plan.Plan, all []Row) []Row {
	if b.Sockets {
		return b.atSockets(p, all)
	}
	if b.NoNode == "" {
		return all
	}
	local := Local()
	index := plan.Index(p)
	return slices.DeleteFunc(slices.Clone(all), func(r Row) bool {
		if r.From != Self || r.Action == "" {
			return false
		}
		to := r.Packet()
		claimed := index[plan.Key{IPv6: to.Dst.Is6(), Addr: to.Dst, Protocol: to.Protocol, Port: to.Port}] != nil
		return r.Action != plan.Drop || !claimed || slices.Contains(local, to.Dst)
	})
}

// atSockets are the rows as Resolve has them with Sockets, but for those that NoNode says, if anything.
func (b Backend) atSockets(p *plan.Plan, all []Row) (out []Row) {
	sockets, devices, local := plan.NewResolver(b.node(p)), plan.NewResolver(p), Local()
	// caught tells whether a device would take what goes to an endpoint for some Service's.
	caught := func(r Row, d Dest) bool {
		to := r.Packet()
		to.Dst, to.Port = d.At.Addr(), d.At.Port()
		return devices.Resolve(to).Known
	}
	for _, r := range all {
		now, other := r.in(sockets.Resolve(r.Packet())), r.in(devices.Resolve(r.Packet()))
		silent := r.From == Self && now.Action == plan.Drop && slices.Contains(local, r.To.Addr())
		again := r.From != Self && now.Outcome() != other.Outcome() && slices.ContainsFunc(now.Dests, func(d Dest) bool { return caught(r, d) })
		if b.NoNode == "" || !silent && !again {
			out = append(out, now)
		}
	}
	return out
}

// node is a plan as the backend's node has it.
func (b Backend) node(p *plan.Plan) *plan.Plan {
	q := *p
	q.Node.Sockets = q.Node.Sockets || b.Sockets
	return &q
}

// Unasked are numbers of rows that a backend is not asked about.
type Unasked struct{ Cases, Random, Connections int }

// unasked compares one of these with what was said: no more goes unasked unnoticed.
func (b Backend) unasked(t *testing.T, all, asked, want int) {
	t.Helper()
	if all-asked != want {
		t.Errorf("%d of %d rows are left out, want %d (%s)", all-asked, all, want, b.NoNode)
	}
}

// forget drops what is remembered of connections, by the kernel and by the backend.
func (b Backend) forget(k kernel) error {
	if err := k.Forget(); err != nil || b.Forget == nil {
		return err
	}
	return b.Forget(k.FD())
}

// LeftOut counts the rows of the cases that the backend is not asked about.
func LeftOut(t *testing.T, dir string, b Backend) {
	asked, all := 0, 0
	for _, c := range b.cases(t, dir) {
		for _, s := range c.Steps {
			all += len(s.Packets)
			asked += len(b.rows(s.Plan(), s.Packets))
		}
	}
	b.unasked(t, all, asked, b.Unasked.Cases)
}

// place is a kernel for one test.
func (b Backend) place(t *testing.T) kernel {
	t.Helper()
	if b.kernel != nil {
		return b.kernel(t)
	}
	n := NewNet(t)
	if b.Sockets {
		n.Sockets(t)
	}
	return n
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
			for _, s := range c.Steps {
				p := s.Plan()
				compareSection(t, c, s.Section("plan"), p.String(), update)
				for _, row := range s.Packets {
					if got := row.Resolve(p); got.Outcome() != row.Outcome() {
						t.Errorf("step %d: %s: the oracle says %s", s.Number, row.Line, got.Outcome())
					}
					if bypassed(row, p.Node) {
						t.Errorf("step %d: %s: cannot be seen, the answer would not come back through the node", s.Number, row.Line)
					}
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

// Packets applies every case, step by step, and sends its packets through the
// kernel; it begins with what the one before it shrank to. Along the way: the kernel holds what is rendered, a second Apply changes
// nothing, a restarted Target has the memory of session affinity, and shrinking to nothing
// leaves nothing. That each case is taken over without a change, Sequence asks. Patterns of
// names say which cases, if not all. It needs root.
func Packets(t *testing.T, dir string, b Backend, only ...string) {
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range only {
		if !slices.ContainsFunc(cases, func(c *Case) bool { return c.like(pattern) }) {
			t.Fatalf("no case is like %s", pattern)
		}
	}
	if len(only) > 0 {
		cases = slices.DeleteFunc(cases, func(c *Case) bool { return !slices.ContainsFunc(only, c.like) })
	}
	queue := make(chan *Case)
	var running sync.WaitGroup
	for range workers() {
		n := b.place(t)
		running.Go(func() {
			for c := range queue {
				t.Run(c.Name, func(t *testing.T) {
					if why := b.lacks(c); why != "" {
						t.Skip(why)
					}
					packets(t, n, c, b)
				})
			}
		})
	}
	for _, c := range cases {
		queue <- c
	}
	close(queue)
	running.Wait()
}

// workers is how many cases are under way at a time, each in a network of its own: half of what
// -parallel allows, at least four. They mostly wait, for the kernel or for silence, so it is not the number
// of processors.
func workers() int {
	return max(4, flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int)/2)
}

func packets(t *testing.T, n kernel, c *Case, b Backend) {
	fd, last := n.FD(), c.Steps[len(c.Steps)-1]
	p := last.Plan()
	defer func() { // the next case takes over what shrinking leaves, but not what a failure did
		if t.Failed() {
			_ = b.Clean(fd)
		}
	}()
	var memory Memory
	sticky := b.sticky(p, last.Packets)
	alive := t.Run("live", func(t *testing.T) {
		target := live(t, n, c, b, &memory)
		apply(t, target, p, p)
		compareDump(t, b, fd, b.Render(p), "after applying the same again")
		if len(sticky) == 0 {
			shrink(t, fd, b, target, p)
		}
	})
	if !alive || len(sticky) == 0 {
		return
	}
	t.Run("restarted", func(t *testing.T) {
		target := b.New(t, fd)
		apply(t, target, nil, p)
		compareDump(t, b, fd, b.Render(p), "after a restart")
		if err := b.forget(n); err != nil {
			t.Fatal(err)
		}
		if err := n.Check(t.Context(), p, sticky, &memory); err != nil {
			t.Errorf("affinity after a restart:\n%v", err)
		}
		shrink(t, fd, b, target, p)
	})
}

// live takes a Target through the steps of a case, and sends their packets.
func live(t *testing.T, n kernel, c *Case, b Backend, memory *Memory) Target {
	target := b.New(t, n.FD())
	var old *plan.Plan
	for _, s := range c.Steps {
		p := s.Plan()
		apply(t, target, old, p)
		compareDump(t, b, n.FD(), b.Render(p), fmt.Sprintf("at step %d", s.Number))
		if err := b.forget(n); err != nil {
			t.Fatal(err)
		}
		if err := n.Check(t.Context(), p, b.rows(p, s.Packets), memory); err != nil {
			t.Errorf("step %d:\n%v", s.Number, err)
		}
		old = p
	}
	return target
}

func shrink(t *testing.T, fd int, b Backend, target Target, p *plan.Plan) {
	t.Helper()
	apply(t, target, p, &plan.Plan{})
	compareDump(t, b, fd, b.Render(&plan.Plan{}), "after shrinking to nothing")
}

// shortAffinity is a timeout that may have passed while a test runs.
const shortAffinity = time.Minute

// sticky are the rows that a restarted Target takes where they went before.
func (b Backend) sticky(p *plan.Plan, all []Row) (out []Row) {
	if b.ForgetsAffinity != "" {
		return nil
	}
	for _, r := range b.rows(p, all) {
		if r.Sticky && plan.Resolve(p, r.Packet()).Affinity > shortAffinity {
			r.Same = true
			out = append(out, r)
		}
	}
	return out
}

// Sequence goes from case to case by difference, there and back so that every
// ordered pair of neighbours occurs warm, and checks that the kernel ends with
// what each case renders, whatever was there before. On the way back the Target
// is another one at each case, and takes over. It needs root.
func Sequence(t *testing.T, dir string, b Backend) {
	cases := b.cases(t, dir)
	t.Run("there", func(t *testing.T) {
		t.Parallel()
		fd := b.place(t).FD()
		target, old := b.New(t, fd), &plan.Plan{}
		apply(t, target, nil, old)
		for _, c := range cases {
			next := c.Plan()
			apply(t, target, old, next)
			compareDump(t, b, fd, b.Render(next), "at case "+c.Name)
			old = next
		}
		clean(t, b, fd)
	})
	t.Run("back", func(t *testing.T) {
		t.Parallel()
		fd := b.place(t).FD()
		for i := len(cases) - 1; i > 0; i-- {
			t.Run(cases[i].Name, func(t *testing.T) {
				target, old, next := b.New(t, fd), cases[i].Plan(), cases[i-1].Plan()
				apply(t, target, nil, old)
				compareDump(t, b, fd, b.Render(old), "after a restart")
				apply(t, target, old, next)
				compareDump(t, b, fd, b.Render(next), "at case "+cases[i-1].Name)
			})
		}
		clean(t, b, fd)
	})
}

func clean(t *testing.T, b Backend, fd int) {
	t.Helper()
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
