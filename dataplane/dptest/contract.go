//go:build linux

package dptest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Contract is everything that a backend must pass, each part a subtest. dir holds
// the cases; update rewrites the backend's sections of them. What needs root
// skips without. The parts go side by side, each in networks of its own: they mostly
// wait, for the kernel or for silence.
func Contract(t *testing.T, dir string, b Backend, update bool) {
	t.Run("Golden", func(t *testing.T) { Golden(t, dir, b, update) })
	t.Run("LeftOut", func(t *testing.T) { LeftOut(t, dir, b) })
	t.Run("Names", func(t *testing.T) { t.Parallel(); Names(t, b, 100) })
	t.Run("Packets", func(t *testing.T) { t.Parallel(); Packets(t, dir, b) })
	t.Run("Sequence", func(t *testing.T) { t.Parallel(); Sequence(t, dir, b) })
	t.Run("Faults", func(t *testing.T) { t.Parallel(); Faults(t, dir, b) })
	t.Run("Interrupted", func(t *testing.T) { t.Parallel(); Interrupted(t, b) })
	t.Run("Histories", func(t *testing.T) { t.Parallel(); Histories(t, b, 8) })
	t.Run("Random", func(t *testing.T) { t.Parallel(); Random(t, b, 1, 300) })
	t.Run("Distribution", func(t *testing.T) { t.Parallel(); Distribution(t, b) })
	t.Run("Thousand", func(t *testing.T) { t.Parallel(); Thousand(t, b) })
	t.Run("Connections", func(t *testing.T) { t.Parallel(); Connections(t, b) })
	t.Run("Expiry", func(t *testing.T) { t.Parallel(); Expiry(t, b) })
}

// errFault is what an injected failure says.
var errFault = errors.New("injected fault")

// faultKinds are what the kernel says when something is amiss for the moment.
var faultKinds = []error{ // const
	errFault, fmt.Errorf("%w: %w", errFault, unix.ENOBUFS), fmt.Errorf("%w: %w", errFault, unix.ENOMEM),
	fmt.Errorf("%w: %w", errFault, unix.EINTR), fmt.Errorf("%w: %w", errFault, os.ErrDeadlineExceeded),
}

// faults lets every tenth question for one be answered so: before a write, or after it.
type faults struct {
	mu            sync.Mutex
	dice          *rand.Rand // guarded by mu
	asked, failed int        // guarded by mu
}

func (f *faults) next() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.dice.IntN(10) > 0 {
		return nil
	}
	f.failed++
	return faultKinds[f.failed%len(faultKinds)]
}

func (f *faults) count() (asked, failed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked, f.failed
}

// oftenEnough bounds the attempts of one Apply. One of ten questions fails in nine of
// ten attempts that ask twenty times; that all of these do has a chance of 1e-14.
const oftenEnough = 300

// enoughWrites is how many a run of Faults makes at least: that none of them is to
// fail has a chance of 1e-9.
const enoughWrites = 200

// Faults goes from case to case while writes to the kernel fail, or their word is lost, and
// does as the loop does: by difference after a success, everything with the old
// state unknown after a failure. At each case the kernel ends with what is
// rendered, and with nothing in the end. It needs root.
func Faults(t *testing.T, dir string, b Backend) {
	if b.Faulty == nil {
		t.Skip("this backend has no writes that fail one by one")
	}
	cases := b.cases(t, dir)
	const seed = 1
	fd, f := b.place(t).FD(), &faults{dice: rand.New(rand.NewPCG(seed, 3))}
	target := b.Faulty(t, fd, f.next)
	old := &plan.Plan{}
	insist(t, target, nil, old)
	order := rand.New(rand.NewPCG(seed, 4))
	for asked := 0; asked < enoughWrites; asked, _ = f.count() {
		order.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		for _, c := range cases {
			for _, s := range c.Steps {
				p := s.Plan()
				insist(t, target, old, p)
				compareDump(t, b, fd, b.Render(p), fmt.Sprintf("at case %s, step %d, with seed %d", c.Name, s.Number, seed))
				old = p
			}
		}
		if now, _ := f.count(); now == asked {
			t.Fatal("no write asks whether it is to fail")
		}
	}
	insist(t, target, old, &plan.Plan{})
	compareDump(t, b, fd, b.Render(&plan.Plan{}), "after shrinking to nothing")
	asked, failed := f.count()
	t.Logf("seed %d: %d of %d writes failed", seed, failed, asked)
}

// insist applies until that succeeds. A refusal of some frontends counts as success, as
// for the loop: a backend must not take a failed write for one.
func insist(t *testing.T, target Target, old, new *plan.Plan) {
	t.Helper()
	for range oftenEnough {
		err := target.Apply(t.Context(), old, new)
		var refused *plan.Refused
		if err == nil || errors.As(err, &refused) {
			return
		}
		if !errors.Is(err, errFault) {
			t.Fatalf("apply: %v, which does not wrap the injected fault", err)
		}
		old = nil
	}
	t.Fatalf("no success in %d attempts", oftenEnough)
}

// Distribution makes many connections to three and to five endpoints: each is
// chosen as often as the others, as far as chance allows. A fair backend fails
// once in a million runs; one that gives nearly half to one of three fails always. It needs root.
func Distribution(t *testing.T, b Backend) {
	k := b.place(t)
	target := b.New(t, k.FD())
	p, rows := spreadPlan()
	apply(t, target, nil, p)
	for _, r := range rows {
		const count = 2000
		got, err := k.Spread(t.Context(), r, count)
		if err != nil {
			t.Fatal(err)
		}
		unfair(t, r, got, count)
	}
}

func unfair(t *testing.T, r Row, got map[netip.AddrPort]int, count int) {
	t.Helper()
	expected, sum := float64(count)/float64(len(r.Dests)), 0.0
	for _, d := range r.Dests {
		off := float64(got[d.At]) - expected
		sum += off * off / expected
		delete(got, d.At)
	}
	t.Logf("%s: chi-square %.1f", r.Line, sum)
	if chance := chiSquareTail(sum, len(r.Dests)-1); chance < 1e-6 {
		t.Errorf("%s: chi-square %.1f, by chance once in %.0g", r.Line, sum, 1/chance)
	}
	if len(got) > 0 {
		t.Errorf("%s: also went to %v", r.Line, got)
	}
}

// chiSquareTail is the chance of a larger sum; for even degrees of freedom it is
// a finite series, of terms too large and too small to be multiplied.
func chiSquareTail(x float64, freedom int) float64 {
	log, sum := -x/2, math.Exp(-x/2)
	for i := 1; i < freedom/2; i++ {
		log += math.Log(x / 2 / float64(i))
		sum += math.Exp(log)
	}
	return sum
}

// spreadPlan has a ClusterIP with three endpoints and a node port with five.
func spreadPlan() (*plan.Plan, []Row) {
	endpoints := func(n int) []objects.Endpoint {
		var out []objects.Endpoint
		for i := range n {
			out = append(out, objects.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 244, 2, byte(2 + i)}), Node: "there", Ready: true, Serving: true})
		}
		return out
	}
	snap := &objects.Snapshot{}
	node := Node()
	snap.Apply(objects.Change{Node: &node})
	for i, n := range []int{3, 5} {
		name := named("spread-", n)
		snap.Apply(objects.Change{Service: &objects.Service{
			Name: name, Type: objects.NodePort, Internal: objects.Cluster, External: objects.Cluster,
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 1, byte(i)})},
			Ports:      []objects.ServicePort{{Protocol: objects.TCP, Port: 80, NodePort: uint16(30100 + i)}},
		}})
		snap.Apply(objects.Change{Slice: &objects.EndpointSlice{
			Name: name, Service: name, Ports: []objects.SlicePort{{Protocol: objects.TCP, Port: 8080}}, Endpoints: endpoints(n),
		}})
	}
	p := plan.Build(snap, defaults())
	rows := []Row{
		{From: PodA, Proto: objects.TCP, To: netip.MustParseAddrPort("10.96.1.0:80")},
		{From: Outside, Proto: objects.TCP, To: netip.MustParseAddrPort("192.0.2.1:30101")},
	}
	for i, r := range rows {
		rows[i] = r.Resolve(p)
		rows[i].Line = fmt.Sprintf("%s %s %s", r.From, r.Proto, r.To)
	}
	return p, rows
}

// Names renders plans of Services with hostile names, and the same with tame
// ones of the same order: a name decides about order at most, so both are alike,
// and nothing that somebody can write into an object becomes syntax.
func Names(t *testing.T, b Backend, seeds int) {
	for seed := range uint64(seeds) {
		h := NewHistory(rand.New(rand.NewPCG(seed, 4)))
		h.First()
		for range 30 {
			h.Next()
		}
		if bad := becomesSyntax(b, h, hostile()[seed%uint64(len(hostile()))]); bad != "" {
			t.Errorf("seed %d: %s", seed, bad)
		}
	}
}

// hostile are strings that mean something to somebody: nft, iptables-restore, a
// shell, printf, an object path.
func hostile() []string {
	return []string{
		"\" ; flush ruleset ; \"", "x } chain y { accept", "\nCOMMIT\n*nat\n-F\n", "-j ACCEPT --", "$(reboot)`reboot`", "%s%n%d",
		"../../proc", "\x00\x01\xff", "# comment", "'", "\\", "{{.}}", "éß漢", string(slices.Repeat([]byte("long"), 100)),
	}
}
