package nftables

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/commits"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// some is a plan of n ClusterIPs with k endpoints each; base tells the endpoints
// of one plan from those of another.
func some(n, k int, base byte) *plan.Plan {
	p := &plan.Plan{Services: map[objects.Name]plan.Service{}}
	for i := range n {
		f := plan.Frontend{
			Key:     plan.Key{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Protocol: objects.TCP, Port: 80},
			Outside: plan.Route{Action: plan.Forward},
		}
		for j := range k {
			f.Outside.Endpoints = append(f.Outside.Endpoints, plan.Endpoint{Addr: netip.AddrFrom4([4]byte{10, base, byte(i >> 8), byte(i)}), Port: uint16(8000 + j)})
		}
		p.Services[objects.Name{Namespace: "ns", Name: fmt.Sprint(i)}] = plan.Service{Frontends: []plan.Frontend{f}}
	}
	return p
}

func newTest(t *testing.T, ns *netns.NS) *Target {
	target := New(Config{Logger: newLogger(t), NetNS: ns.FD()})
	t.Cleanup(func() { _ = target.Close() })
	return target
}

func newLogger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// write sends a batch that is not the Target's.
func write(t *testing.T, ns *netns.NS, fill func(*batch)) {
	t.Helper()
	conn, err := dial(ns.FD(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := &batch{}
	fill(b)
	if err := conn.send(b); err != nil {
		t.Fatal(err)
	}
}

func chains(t *testing.T, ns *netns.NS) string { return chainsOf(t, ns, lib.TableFamilyIPv4) }

func chainsOf(t *testing.T, ns *netns.NS, family lib.TableFamily) string {
	t.Helper()
	conn, err := lib.New(lib.WithNetNSFd(ns.FD()))
	if err != nil {
		t.Fatal(err)
	}
	all, err := conn.ListChainsOfTableFamily(family)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range all {
		out = append(out, c.Name)
	}
	return strings.Join(out, " ")
}

// Somebody else deletes an element between the dump and the batch: an error, and
// the tables stand. The next Apply repairs.
func TestForeignDeleteDoesNotReplace(t *testing.T) {
	ns := netns.ForTest(t, "meddle")
	before, after := some(3, 2, 1), some(2, 2, 1)
	if err := newTest(t, ns).takeOver(before); err != nil {
		t.Fatal(err)
	}
	present, err := dump(ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	gone := plan.Key{Addr: netip.MustParseAddr("10.96.0.2"), Protocol: objects.TCP, Port: 80}
	id := elementID{set: setServices, key: frontendKey(gone)}
	val, ok := present.elements.get(id)
	if !ok {
		t.Fatalf("%v is not in the kernel", gone)
	}
	write(t, ns, func(b *batch) {
		b.elements(newBoth()[0], setServices, unix.NFT_MSG_DELSETELEM, []Element{{id, val}})
		b.chain(newBoth()[0], chain{name: "witness"}) // goes if the table is replaced
	})
	target := newTest(t, ns)
	if err := target.takeOverFrom(after, present); !errors.Is(err, unix.ENOENT) {
		t.Errorf("taking over from an old dump: %v, want ENOENT", err)
	}
	if got := chains(t, ns); !strings.Contains(got, "witness") {
		t.Errorf("the table was replaced; chains: %s", got)
	}
	if out, err := Dump(ns.FD()); err != nil || strings.Count(out, "ip services ") != 2 {
		t.Errorf("kernel after the error, %v:\n%s", err, out)
	}
	if err := target.takeOver(after); err != nil {
		t.Fatal(err)
	}
	out, err := Dump(ns.FD())
	if diff := cmp.Diff(Render(after), out); diff != "" || err != nil {
		t.Errorf("kernel after the repair (-want +got), %v:\n%s", err, diff)
	}
}

// An element that comes a second time says that others may be missing.
func TestDumpTwice(t *testing.T) {
	ns := netns.ForTest(t, "twice")
	if err := newTest(t, ns).takeOver(some(3, 2, 1)); err != nil {
		t.Fatal(err)
	}
	conn, err := dial(ns.FD(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, f := ofSet{}, newBoth()[0]
	if err := all.read(conn, f, setServices); err != nil || len(all) != 3 {
		t.Fatalf("%d elements, %v", len(all), err)
	}
	if err := all.read(conn, f, setServices); !errors.Is(err, commits.ErrInterrupted) {
		t.Errorf("reading the same elements again: %v, want %v", err, commits.ErrInterrupted)
	}
	if err := (ofSet{}).read(conn, f, setRestricted); err != nil { // which is empty
		t.Error(err)
	}
}

// An element replaced is a deletion and an addition: both count, in number and
// in bytes, and the count is no less than what is sent.
func TestBatchSize(t *testing.T) {
	for _, n := range []int{1, 100, 5000} {
		o := newOps()
		var old, new []Element
		for i := range n {
			key := slotKey(frontendKey(plan.Key{Addr: netip.MustParseAddr("fd00::1"), Protocol: objects.TCP, Port: 80}), uint32(i))
			id := elementID{v6: true, set: viewServices.slots(0), key: key}
			old = append(old, Element{id, endpointBytes(plan.Endpoint{Addr: netip.MustParseAddr("fd00::2"), Port: 80})})
			new = append(new, Element{id, endpointBytes(plan.Endpoint{Addr: netip.MustParseAddr("fd00::3"), Port: 80})})
		}
		o.replace(old, new)
		writes, bytes := o.size()
		b := &batch{}
		o.write(newBoth(), b)
		if writes != 2*n {
			t.Errorf("%d elements replaced count as %d writes, want %d", n, writes, 2*n)
		}
		if bytes < b.bytes()-batchFrame || n >= 100 && bytes > 2*b.bytes() {
			t.Errorf("%d elements replaced: %d bytes expected, %d sent", n, bytes, b.bytes())
		}
		if got, want := full(&batch{}, o, 1<<30, false), 2*n >= batchElements; got != want {
			t.Errorf("%d elements replaced in a large buffer: split %t, want %t", n, got, want)
		}
		if !full(&batch{}, o, b.bytes(), true) {
			t.Errorf("%d elements replaced in a buffer of their size: not split", n)
		}
	}
}

// narrow makes sockets that take less than 100 KiB.
func narrow(t *testing.T) func(*conn) {
	return func(c *conn) {
		t.Helper()
		if err := c.SetWriteBuffer(48 << 10); err != nil {
			t.Fatal(err)
		}
		var err error
		if c.room, err = granted(c.Conn); err != nil || c.room > 100<<10 {
			t.Fatalf("%d bytes are granted, %v", c.room, err)
		}
	}
}

// A socket that is granted little takes a large plan nevertheless.
func TestSmallBuffer(t *testing.T) {
	ns := netns.ForTest(t, "small")
	target := newTest(t, ns)
	target.dialled = narrow(t)
	a, b := some(1500, 3, 1), some(1500, 3, 2)
	if err := target.Apply(t.Context(), nil, a); err != nil {
		t.Fatal(err)
	}
	if err := target.Apply(t.Context(), a, b); err != nil { // every slot replaced
		t.Fatal(err)
	}
	out, err := Dump(ns.FD())
	if diff := cmp.Diff(Render(b), out); diff != "" || err != nil {
		t.Errorf("kernel (-want +got), %v:\n%s", err, diff)
	}
}

// A chain is there one commit before anything leads to it: a packet on its way over the
// commit that makes a chain finds it empty. Whatever a change brings that is new (a number
// of endpoints, affinity, its timeout, a guard, a view, a family), to tables that stand
// and to those that a Target takes over.
func TestChainsComeFirst(t *testing.T) {
	ns := netns.ForTest(t, "first")
	families := []lib.TableFamily{lib.TableFamilyIPv4, lib.TableFamilyIPv6}
	tables := func() (map[lib.TableFamily]string, string) {
		out, err := Dump(ns.FD())
		if err != nil {
			t.Fatal(err)
		}
		in := map[lib.TableFamily]string{}
		for _, f := range families {
			in[f] = chainsOf(t, ns, f)
		}
		return in, out
	}
	var made, transactions int
	var inPlace map[lib.TableFamily]string
	var elements string
	look := func() {
		is, now := tables()
		for _, f := range families {
			if is[f] == inPlace[f] {
				continue
			}
			made++
			// Where there are no hooks yet no packet is on its way.
			if now != elements && strings.Contains(inPlace[f], "prerouting") {
				t.Errorf("transaction %d makes chains and changes elements:\n%s", transactions, cmp.Diff(elements, now))
			}
		}
		inPlace, elements = is, now
	}
	asked := 0
	fault := func() error { look(); asked++; transactions = asked / 2; return nil } // before and after each
	target := newTest(t, ns)
	target.fault = fault
	name := objects.Name{Namespace: "ns", Name: "0"}
	var was *plan.Plan
	to := func(k int, edit func(*plan.Frontend)) {
		t.Helper()
		p := some(1, k, 1)
		edit(&p.Services[name].Frontends[0])
		if err := target.Apply(t.Context(), was, p); err != nil {
			t.Fatal(err)
		}
		look()
		was = p
		wantKernel(t, ns, p)
	}
	plain := func(*plan.Frontend) {}
	sticky := func(f *plan.Frontend) { f.Affinity = 30 * time.Second }
	changes := []func(*plan.Frontend){
		plain, sticky,
		func(f *plan.Frontend) { f.Affinity = 40 * time.Second },
		func(f *plan.Frontend) {
			f.Restricted, f.Sources = true, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		},
		func(f *plan.Frontend) {
			f.Inside = &plan.Route{Action: plan.Forward, Endpoints: f.Outside.Endpoints[:2]}
		},
		func(f *plan.Frontend) { f.Key = plan.Key{Protocol: objects.TCP, Port: 30080} },
		func(f *plan.Frontend) {
			f.Key = plan.Key{IPv6: true, Addr: netip.MustParseAddr("fd00:10:96::1"), Protocol: objects.TCP, Port: 80}
			for i := range f.Outside.Endpoints {
				f.Outside.Endpoints[i].Addr = netip.MustParseAddr("fd00:10:244::1")
			}
		},
	}
	for i, edit := range changes {
		before := made
		to(4+i, edit)
		if i > 0 && made != before+1 { // at first those with hooks come last
			t.Errorf("change %d: %d transactions made chains, want 1", i, made-before)
		}
	}
	before := transactions
	to(3+len(changes), plain) // whose chain is new, and then is not
	to(4, plain)
	to(3+len(changes), plain)
	if got := transactions - before; got != 4 {
		t.Errorf("%d transactions for three changes of which one needs a chain, want 4", got)
	}
	before = transactions
	to(4, func(f *plan.Frontend) { f.Outside = plan.Route{Action: plan.Reject} }) // whose chain every table has
	if got := transactions - before; got != 1 {
		t.Errorf("%d transactions for a frontend that refuses, want 1", got)
	}
	_ = target.Close()
	target, was = newTest(t, ns), nil // another process, which takes over
	target.fault = fault
	to(12, sticky)
	_ = target.Close()
	write(t, ns, func(b *batch) { // tables of another version, which are replaced as a whole
		f := newBoth()[0]
		b.removeTable(f, TableName)
		b.table(f, 0)
		f.sets[setServices] = setSpec{name: f.sets[setServices].name, key: f.sets[setClusterIPs].key}
		b.set(f, setServices)
	})
	target, was = newTest(t, ns), nil
	inPlace = nil // the replacement itself is one commit
	to(4, plain)
	target.fault = fault // and from then on as ever
	before = made
	to(13, plain)
	if made != before+1 || target.replacing {
		t.Errorf("after a replacement %d transactions made chains, want 1; it goes on as if it replaced: %t", made-before, target.replacing)
	}
}

// Where the hooks are missing they come last: what is half written is not at
// work yet.
func TestHooksComeLast(t *testing.T) {
	ns := netns.ForTest(t, "last")
	p := some(2500, 4, 1)
	for fails := 1; ; fails++ {
		target, writes := newTest(t, ns), 0
		target.fault = func() error {
			if writes++; writes == 2*fails-1 { // before the transaction: it is asked after it, too
				return unix.ENOBUFS
			}
			return nil
		}
		err := target.Apply(t.Context(), nil, p)
		hooked := strings.Contains(chains(t, ns), "prerouting")
		if err == nil {
			if !hooked || writes < 4 {
				t.Errorf("after %d transactions the hook is there: %t", writes/2, hooked)
			}
			return
		}
		if hooked {
			t.Fatalf("the hook is there before transaction %d", fails)
		}
		if err := Clean(ns.FD()); err != nil {
			t.Fatal(err)
		}
	}
}

// incompatible is what another version left: a set of another type, and a hook.
func incompatible(b *batch) {
	for _, f := range newBoth() {
		b.table(f, 0)
		f.sets[setServices] = setSpec{name: f.sets[setServices].name, key: f.sets[setClusterIPs].key}
		b.set(f, setServices)
		b.chain(f, chain{name: "prerouting", hook: f.baseChains()[0].hook})
	}
}

// Where tables are replaced, the new ones serve from the transaction on in which the old ones go.
func TestReplacedAtOnce(t *testing.T) {
	for _, refused := range []bool{false, true} {
		ns := netns.ForTest(t, "at-once")
		write(t, ns, incompatible)
		p := some(50, 3, 1)
		want := p
		if refused {
			want = without(p, spoil(p, 7))
		}
		target, gaps := newTest(t, ns), 0
		target.fault = func() error {
			if !strings.Contains(chains(t, ns), "prerouting") {
				gaps++
			}
			return nil
		}
		err := target.Apply(t.Context(), nil, p)
		if is := errors.As(err, new(*plan.Refused)); err != nil && !is || is != refused {
			t.Fatalf("refused %t: %v", refused, err)
		}
		// A frontend that the kernel refuses is found by halves, which serve when all are in.
		if gaps > 0 && !refused {
			t.Errorf("nothing served before %d transactions", gaps)
		}
		wantKernel(t, ns, want)
	}
}

// So it is with a plan that the buffer of other changes has no room for: one generation.
func TestLargeReplacedAtOnce(t *testing.T) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	if replaceBuffer(string(text)) < 12<<20 {
		t.Skip("needs 4 GB of memory that is available")
	}
	ns := netns.ForTest(t, "large")
	write(t, ns, incompatible)
	was, err := commits.Generation(ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	p := wide(16_000)
	if err := newTest(t, ns).Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	if now, err := commits.Generation(ns.FD()); err != nil || now != was+1 {
		t.Errorf("replaced in %d transactions, %v", now-was, err)
	}
	wantKernel(t, ns, p)
}

// How large the transaction is that replaces tables, by the memory of the host.
func TestReplaceBuffer(t *testing.T) {
	for meminfo, want := range map[string]int{
		"MemFree: 1 kB\nMemAvailable:    8388608 kB\nBuffers: 2 kB\n": 8 << 30 / 300,
		"MemAvailable:  524288 kB\n":                                  leastReplaced,
		"MemAvailable: 268435456 kB\n":                                mostReplaced,
		"MemFree: 268435456 kB\n":                                     leastReplaced, // no answer
		"MemAvailable: much\n":                                        leastReplaced,
	} {
		if got := replaceBuffer(meminfo); got != want {
			t.Errorf("%q: %d, want %d", meminfo, got, want)
		}
	}
}

// What replaces them and does not fit the socket goes in parts: nothing is served from the first,
// in which the old tables go, to the last. One that ends there is finished by the next Apply.
func TestReplacedInParts(t *testing.T) {
	ns := netns.ForTest(t, "in-parts")
	write(t, ns, incompatible)
	p := some(1500, 3, 1)
	target, gaps := newTest(t, ns), 0
	target.dialled = narrow(t)
	target.fault = func() error {
		if !strings.Contains(chains(t, ns), "prerouting") {
			gaps++
		}
		if gaps == 3 {
			return unix.ENOBUFS
		}
		return nil
	}
	if err := target.Apply(t.Context(), nil, p); !errors.Is(err, unix.ENOBUFS) {
		t.Fatalf("%v after %d questions for a fault without a hook: if it is one transaction now, doc.go says otherwise", err, gaps)
	}
	if err := target.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	if gaps <= 3 {
		t.Errorf("after the interruption %d questions without a hook: the rules came alive before they were complete", gaps-3)
	}
	wantKernel(t, ns, p)
}

// Source ranges that overlap those found are taken over in one transaction.
func TestRangesTakenOver(t *testing.T) {
	ns := netns.ForTest(t, "ranges")
	for _, sources := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/9", "0.0.0.0/1"} {
		p := some(2, 1, 1)
		n := objects.Name{Namespace: "ns", Name: "1"}
		f := p.Services[n].Frontends[0]
		f.Restricted, f.Sources = true, []netip.Prefix{netip.MustParsePrefix(sources)}
		p.Services[n] = plan.Service{Frontends: []plan.Frontend{f}}
		if err := newTest(t, ns).Apply(t.Context(), nil, p); err != nil {
			t.Fatalf("to %s: %v", sources, err)
		}
		wantKernel(t, ns, p)
	}
}

// Loading conntrack leaves nothing, and other tables alone.
func TestLoadConntrack(t *testing.T) {
	ns := netns.ForTest(t, "load")
	write(t, ns, func(b *batch) { b.table(newBoth()[0], 0) })
	for range 2 {
		if err := LoadConntrack(ns.FD()); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := lib.New(lib.WithNetNSFd(ns.FD()))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := conn.ListTables()
	if err != nil || len(tables) != 1 || tables[0].Name != TableName {
		t.Errorf("tables %v, %v; want the one from before alone", tables, err)
	}
}
