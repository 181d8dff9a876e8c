package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

func udp(at string, to ...string) plan.Frontend { return text(plan.ClusterIP, objects.UDP, at, to...) }
func tcp(at string, to ...string) plan.Frontend { return text(plan.ClusterIP, objects.TCP, at, to...) }
func node(at string, to ...string) plan.Frontend {
	return text(plan.NodePort, objects.UDP, at, to...)
}

func text(kind plan.Kind, protocol objects.Protocol, at string, to ...string) plan.Frontend {
	var eps []netip.AddrPort
	for _, e := range to {
		eps = append(eps, netip.MustParseAddrPort(e))
	}
	return front(kind, protocol, netip.MustParseAddrPort(at), eps...)
}

func lines(qs []filter) (out []string) {
	for _, q := range qs {
		out = append(out, q.String())
	}
	return out
}

// begun is the work of a node with a plan, before its first change.
func begun(tcp bool, p *plan.Plan) *work {
	w := newWork(newTable(tcp))
	w.take(change{new: p}, time.Now())
	return settled(w)
}

// settled is work after a round with no grace time.
func settled(w *work) *work {
	due, _ := w.due(time.Now(), 0)
	w.done(due, 0, time.Now())
	return w
}

// What the kernel is asked for by a change, without a kernel.
func TestQuestions(t *testing.T) {
	many := func(ports int, to ...string) (out []plan.Frontend) {
		for i := range ports {
			f := udp("10.96.0.1:53", to...)
			f.Key.Port = uint16(100 + i)
			out = append(out, f)
		}
		return out
	}
	shortcut := func(to ...string) func(*plan.Frontend) {
		return func(f *plan.Frontend) { r := udp("10.96.0.1:53", to...).Outside; f.Inside = &r }
	}
	const a, b, c = "10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"
	for _, tc := range []struct {
		name     string
		old, new *plan.Plan
		want     []string
	}{
		{"nothing changed", planOf(udp("10.96.0.1:53", a)), planOf(udp("10.96.0.1:53", a)), nil},
		{"endpoint added", planOf(udp("10.96.0.1:53", a)), planOf(udp("10.96.0.1:53", a, b)), nil},
		{"endpoint turns to draining", planOf(udp("10.96.0.1:53", a, b)), planOf(with(udp("10.96.0.1:53", a), drains(netip.MustParseAddrPort(b)))), nil},
		{"endpoint moves to the inside", planOf(node("192.0.2.1:30053", a, b)), planOf(with(node("192.0.2.1:30053", a), shortcut(a, b))), nil},
		{"TCP only", planOf(tcp("10.96.0.1:80", a)), planOf(tcp("10.96.0.1:80", b)), nil},
		{"affinity and masquerading", planOf(udp("10.96.0.1:53", a)),
			planOf(with(udp("10.96.0.1:53", a), func(f *plan.Frontend) { f.Affinity, f.Outside.Masquerade = 3, plan.MasqAlways })), nil},
		{"endpoint gone: one question for all frontends", planOf(udp("10.96.0.1:53", a, b), node("192.0.2.1:30053", a, b)),
			planOf(udp("10.96.0.1:53", b), node("192.0.2.1:30053", b)), []string{"udp by 10.0.0.1:53"}},
		{"target port", planOf(udp("10.96.0.1:53", a)), planOf(udp("10.96.0.1:53", "10.0.0.1:5353")), []string{"udp by 10.0.0.1:53"}},
		{"frontend new", planOf(), planOf(udp("10.96.0.1:53", a)), []string{"udp to 10.96.0.1:53"}},
		{"frontend gone", planOf(udp("10.96.0.1:53", a)), planOf(), []string{"udp to 10.96.0.1:53"}},
		{"zero to one", planOf(udp("10.96.0.1:53")), planOf(udp("10.96.0.1:53", a)), []string{"udp to 10.96.0.1:53"}},
		{"the inside opens", planOf(with(node("192.0.2.1:30053", a), shortcut())), planOf(with(node("192.0.2.1:30053", a), shortcut(a))), []string{"udp to 192.0.2.1:30053"}},
		{"one to zero", planOf(udp("10.96.0.1:53", a)), planOf(udp("10.96.0.1:53")), []string{"udp by 10.0.0.1:53"}},
		{"restricted", planOf(udp("10.96.0.1:53", a)), planOf(with(udp("10.96.0.1:53", a), onlyFromElsewhere)), []string{"udp to 10.96.0.1:53"}},
		{"let in again", planOf(with(udp("10.96.0.1:53", a), onlyFromElsewhere)), planOf(udp("10.96.0.1:53", a)), nil},
		{"IPv6 by port only", planOf(udp("[fd00::1]:53", "[fd00::a]:53", "[fd00::b]:53")), planOf(udp("[fd00::1]:53")), []string{"udp by [::]:53"}},
		{"node address gone", at(planOf(node("192.0.2.1:30053", a)), addr("192.0.2.1"), addr("192.0.2.9")), at(planOf(node("192.0.2.1:30053", a)), addr("192.0.2.1")),
			[]string{"udp to 192.0.2.9:30053"}},
		{"node address new", at(planOf(node("192.0.2.1:30053", a)), addr("192.0.2.1")), at(planOf(node("192.0.2.1:30053", a)), addr("192.0.2.1"), addr("192.0.2.9")),
			[]string{"udp to 192.0.2.9:30053"}},
		{"node port of another family's address", at(planOf(), addr("192.0.2.1")), at(planOf(node("[2001:db8::1]:30053")), addr("192.0.2.1")), nil},
		{"an external address hands over to the node port", planOf(udp("192.0.2.1:30053", a, b), node("192.0.2.1:30053", b, c)), planOf(node("192.0.2.1:30053", b, c)),
			[]string{"udp by 10.0.0.1:53"}},
		{"as many as are asked one by one", planOf(), planOf(many(2, a)...), []string{"udp to 10.96.0.1:100", "udp to 10.96.0.1:101"}},
		{"more than that", planOf(), planOf(many(mostQuestions+1, a)...), []string{"udp"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := begun(false, tc.old)
			w.take(change{old: tc.old, new: tc.new}, time.Now())
			if diff := cmp.Diff(tc.want, lines(w.questions())); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
		})
	}
}

// A node address that comes or goes concerns node ports of Services that are not
// in the partial plan.
func TestNodeAddressAlone(t *testing.T) {
	w := begun(false, planOf(node("192.0.2.1:30053", "10.0.0.1:53")))
	old := planOf()
	old.Node = w.table.node
	w.take(change{old: old, new: at(planOf(), addr("192.0.2.9"))}, time.Now())
	want := []string{"udp to 192.0.2.1:30053", "udp to 192.0.2.9:30053"}
	if diff := cmp.Diff(want, lines(w.questions())); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// A TCP endpoint is gone when the last frontend gave it up, in whatever change.
func TestGoneTCP(t *testing.T) {
	const a, b = "10.0.0.1:80", "10.0.0.2:80"
	first, second := tcp("10.96.0.1:80", a, b), tcp("10.96.0.2:80", a)
	own := text(plan.ExternalIP, objects.TCP, a, a) // an address that is an endpoint as well
	w := begun(true, planOf(first, second, own))
	w.take(change{old: planOf(first), new: planOf(tcp("10.96.0.1:80", b))}, time.Now())
	if got := lines(w.questions()); got != nil {
		t.Errorf("asked %v while another frontend has the endpoint", got)
	}
	w.take(change{old: planOf(second, own), new: planOf()}, time.Now())
	if diff := cmp.Diff([]string{"tcp by 10.0.0.1:80"}, lines(w.questions())); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	fl := func(dst, from string, state uint8) flow {
		return flow{protocol: objects.TCP, src: ap(addr("192.0.2.2"), 9), dst: netip.MustParseAddrPort(dst), from: netip.MustParseAddrPort(from), state: state}
	}
	for _, tc := range []struct {
		name string
		flow flow
		want verdict
	}{
		{"of the frontend that is gone", fl("10.96.0.2:80", a, tcpEstablished), reset},
		{"of one that gave it up before", fl("10.96.0.1:80", a, tcpEstablished), reset},
		{"of one that waits for an answer", fl("10.96.0.1:80", a, tcpSynSent), remove},
		{"half closed", fl("10.96.0.1:80", a, tcpCloseWait), reset},
		{"closed", fl("10.96.0.1:80", a, tcpCloseWait+1), keep},
		{"to an endpoint that is there", fl("10.96.0.1:80", b, tcpEstablished), keep},
		{"to the pod itself", fl(a, a, tcpEstablished), keep},
		{"to somebody else's address", fl("10.96.0.9:80", a, tcpEstablished), keep},
	} {
		if got := w.judge(tc.flow); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	w.take(change{new: planOf(tcp("10.96.0.1:80", b))}, time.Now())
	if w.gone[netip.MustParseAddrPort(a)].IsZero() {
		t.Error("what is gone is forgotten with a complete Apply")
	}
	w.take(change{old: planOf(tcp("10.96.0.1:80", b)), new: planOf(tcp("10.96.0.1:80", a, b))}, time.Now())
	if got := lines(w.questions()); slices.Contains(got, "tcp by 10.0.0.1:80") {
		t.Errorf("asked %v for an endpoint that is back", got)
	}
}

// Flows that the kernel tests do not make.
func TestJudgeUDP(t *testing.T) {
	const host = "192.0.2.1:30053"
	gone := begun(false, planOf(node(host, host, "10.0.0.1:53")))
	gone.take(change{old: planOf(node(host, host, "10.0.0.1:53")), new: planOf()}, time.Now())
	for _, tc := range []struct {
		name string
		flow flow
		want verdict
	}{
		{"of an endpoint of a frontend that is gone", fakeFlow(1, objects.UDP, host, "10.0.0.1:53"), remove},
		{"of somebody else's endpoint there", fakeFlow(1, objects.UDP, host, "10.0.0.2:53"), keep},
		{"of a program on the node, at the same port", fakeFlow(1, objects.UDP, host, host), keep},
		{"of another protocol", fakeFlow(1, objects.SCTP, host, "10.0.0.1:53"), keep},
	} {
		if got := gone.judge(tc.flow); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// fake answers like a kernel, with its faults.
type fake struct {
	flows     []flow
	asked     []string
	removed   []uint16        // by client port
	noFilter  bool            // takes a filter and does not heed it, as before Linux 5.8
	errs      []error         // of the next dumps
	fail      error           // of remove
	only      map[uint16]bool // that fails for these client ports; nil: for all
	offloaded map[uint16]bool // by client port; cannot be removed
	tried     int             // to remove these
	mute      error           // of reset
	resets    int
	walk      func() // called in a dump, if not nil

	turns sync.Mutex // the test and Run have the fake by turns, see sleep
}

// turn orders what has been done with the fake before what will be. It is not held: a walk waits
// for the test.
func (k *fake) turn() {
	k.turns.Lock()
	defer k.turns.Unlock()
}

func (k *fake) dump(_ context.Context, q filter, plain bool, each func(flow)) error {
	k.turn()
	k.asked = append(k.asked, map[bool]string{true: "all of "}[plain]+q.String())
	for _, f := range k.flows {
		if plain || k.noFilter || q.matches(f) {
			each(f)
		}
	}
	if k.walk != nil {
		k.walk()
	}
	if len(k.errs) > 0 {
		err := k.errs[0]
		k.errs = k.errs[1:]
		return err
	}
	return nil
}

func (k *fake) remove(_ context.Context, f flow) (bool, error) {
	k.turn()
	if k.fail != nil && (k.only == nil || k.only[f.src.Port()]) {
		return false, k.fail
	}
	if k.offloaded[f.src.Port()] {
		k.tried++
		return false, unix.EBUSY
	}
	before := len(k.flows)
	k.flows = slices.DeleteFunc(k.flows, func(o flow) bool { return stateless(o) == stateless(f) })
	if len(k.flows) < before {
		k.removed = append(k.removed, f.src.Port())
	}
	return len(k.flows) < before, nil
}

func (k *fake) read(_ context.Context, f flow) (flow, bool, error) {
	k.turn()
	for _, now := range k.flows {
		if stateless(now) == stateless(f) {
			return now, true, nil
		}
	}
	return f, false, nil
}

func (k *fake) reset(_ context.Context, _ flow) error {
	k.turn()
	k.resets++
	return k.mute
}
func (k *fake) close() error { return nil }

func fakeFlow(sport uint16, protocol objects.Protocol, dst, from string) flow {
	src := ap(addr("192.0.2.2"), sport)
	return flow{protocol: protocol, src: src, dst: netip.MustParseAddrPort(dst), from: netip.MustParseAddrPort(from), back: src, state: tcpEstablished}
}

// The kernel's faults: what is done about each, and that it is said.
func TestFaults(t *testing.T) {
	const a, b = "10.0.0.1:53", "10.0.0.2:53"
	old := planOf(udp("10.96.0.1:53", a, b), udp("10.96.0.2:53", a), tcp("10.96.0.1:80", a))
	new := planOf(udp("10.96.0.1:53", b), tcp("10.96.0.1:80", b))
	all := []uint16{1, 2, 3}
	interrupted := slices.Repeat([]error{errInterrupted}, dumpTries)
	for _, tc := range []struct {
		name    string
		kernel  *fake
		asked   []string
		removed []uint16
		err     string
		log     string
	}{
		{"none", &fake{}, []string{"tcp by 10.0.0.1:53", "udp by 10.0.0.1:53", "udp to 10.96.0.2:53"}, all, "", "stale flows deleted"},
		{"filters are refused", &fake{errs: []error{unix.EOPNOTSUPP}}, []string{"tcp by 10.0.0.1:53", "all of tcp", "all of udp"}, all, "", "level=WARN msg=\"the kernel cannot filter flows"},
		{"filters are not heeded", &fake{noFilter: true}, []string{"tcp by 10.0.0.1:53", "all of tcp", "all of udp"}, all, "", "level=WARN msg=\"the kernel cannot filter flows"},
		{"a dump is interrupted", &fake{errs: interrupted[:2]}, []string{"tcp by 10.0.0.1:53", "tcp by 10.0.0.1:53", "tcp by 10.0.0.1:53", "udp by 10.0.0.1:53", "udp to 10.96.0.2:53"}, all, "", ""},
		{"every dump is", &fake{errs: interrupted}, slices.Repeat([]string{"tcp by 10.0.0.1:53"}, dumpTries), nil, "interrupted, 5 times", ""},
		{"no permission", &fake{errs: []error{unix.EPERM}}, []string{"tcp by 10.0.0.1:53"}, nil, "end stale flows: operation not permitted", ""},
		{"a flow cannot be deleted", &fake{fail: unix.EPERM}, []string{"tcp by 10.0.0.1:53", "udp by 10.0.0.1:53", "udp to 10.96.0.2:53"}, nil, "end stale flows: operation not permitted", ""},
		{"one flow cannot be", &fake{fail: unix.EPERM, only: map[uint16]bool{3: true}}, []string{"tcp by 10.0.0.1:53", "udp by 10.0.0.1:53", "udp to 10.96.0.2:53"}, []uint16{1, 2}, "end stale flows: operation not permitted", "stale flows deleted"},
		{"nor can it be, and the socket is no more", &fake{fail: os.ErrDeadlineExceeded, only: map[uint16]bool{3: true}}, []string{"tcp by 10.0.0.1:53", "udp by 10.0.0.1:53", "udp to 10.96.0.2:53"}, nil, "end stale flows: i/o timeout", ""},
		{"the kernel keeps flows", &fake{offloaded: map[uint16]bool{2: true, 3: true}}, []string{"tcp by 10.0.0.1:53", "udp by 10.0.0.1:53", "udp to 10.96.0.2:53"}, []uint16{1}, "", "level=WARN msg=\"the kernel keeps stale flows, will try again\" flows=2 first=\"device or resource busy\""},
		{"a connection cannot be reset", &fake{mute: unix.EPERM}, []string{"tcp by 10.0.0.1:53", "udp by 10.0.0.1:53", "udp to 10.96.0.2:53"}, all, "", "connections=1 first=\"operation not permitted\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, errs := tc.kernel, tc.kernel.errs
			k.errs = nil
			f, log := faulty(k)
			if err := f.apply(t.Context(), nil, old); err != nil {
				t.Fatal(err)
			}
			k.asked, k.errs = nil, errs
			k.flows = []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a), fakeFlow(2, objects.UDP, "10.96.0.2:53", a), fakeFlow(3, objects.TCP, "10.96.0.1:80", a),
				fakeFlow(4, objects.UDP, "10.96.0.1:53", b), fakeFlow(5, objects.UDP, "198.51.100.1:53", a)}
			err := f.apply(t.Context(), old, new)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.asked, k.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			slices.Sort(k.removed)
			if diff := cmp.Diff(tc.removed, k.removed); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			if !strings.Contains(log.String(), tc.log) {
				t.Errorf("log %q, want %q in it", log, tc.log)
			}
			if err == nil {
				return
			}
			k.fail, k.errs = nil, nil
			if _, err := f.round(t.Context()); err != nil {
				t.Fatal(err)
			}
			if slices.Sort(k.removed); !slices.Equal(k.removed, all) {
				t.Errorf("removed %d after the fault, want %d", k.removed, all)
			}
		})
	}
}

// Parts of a dump as they come: cut ones, foreign ones, errors and the mark of
// an interruption.
func TestParsePart(t *testing.T) {
	message := func(kind, flags uint16, seq uint32, data []byte) []byte {
		out := binary.NativeEndian.AppendUint32(nil, uint32(16+len(data)))
		out = binary.NativeEndian.AppendUint16(out, kind)
		out = binary.NativeEndian.AppendUint16(out, flags)
		out = binary.NativeEndian.AppendUint32(out, seq)
		return append(append(out, 0, 0, 0, 0), data...)
	}
	native := func(n int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(n)) }
	one := append(nfgen(false), tuple(ctaTupleOrig, objects.UDP, ap(addr("192.0.2.2"), 9), ap(addr("10.96.0.1"), 53))...)
	whole := append(slices.Clone(one), tuple(ctaTupleReply, objects.UDP, ap(addr("10.0.0.1"), 53), ap(addr("192.0.2.2"), 9))...)
	for _, tc := range []struct {
		name      string
		part      []byte
		flows     int
		done, cut bool
		err       error
	}{
		{"a flow", message(ctGet, 0, 7, whole), 1, false, false, nil},
		{"an answer to somebody else", message(ctGet, 0, 8, whole), 0, false, false, nil},
		{"one direction only", message(ctGet, 0, 7, one), 0, false, false, nil},
		{"a flow and the end", append(message(ctGet, 0, 7, whole), message(unix.NLMSG_DONE, 0, 7, native(0))...), 1, true, false, nil},
		{"interrupted", append(message(ctGet, unix.NLM_F_DUMP_INTR, 7, whole), message(unix.NLMSG_DONE, 0, 7, native(0))...), 1, true, true, nil},
		{"refused", message(unix.NLMSG_ERROR, 0, 7, native(-int32(unix.EOPNOTSUPP))), 0, true, false, unix.EOPNOTSUPP},
		{"ended by an error", message(unix.NLMSG_DONE, 0, 7, native(-int32(unix.ENOBUFS))), 0, true, false, unix.ENOBUFS},
	} {
		flows := 0
		done, cut, err := parsePart(tc.part, 7, func(flow) { flows++ })
		if flows != tc.flows || done != tc.done || cut != tc.cut || !errors.Is(err, tc.err) {
			t.Errorf("%s: %d flows, done %v, interrupted %v, error %v", tc.name, flows, done, cut, err)
		}
	}
	if _, _, err := parsePart(message(ctGet, 0, 7, whole)[:40], 7, func(flow) {}); err == nil {
		t.Error("a part that ends within a message is no error")
	}
	for n := range whole {
		if _, ok := parseFlow(whole[:n]); ok {
			t.Errorf("a flow cut after %d of %d bytes is read", n, len(whole))
		}
	}
}

// What a walk has looked at is in doubt no more, though there was another change meanwhile;
// a Service's TCP frontends that went are known for as long as an endpoint may be waited for.
func TestDone(t *testing.T) {
	const a, b, c = "10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"
	steps := []*plan.Plan{planOf(udp("10.96.0.1:53", a, b, c)), planOf(udp("10.96.0.1:53", b, c)), planOf(udp("10.96.0.1:53", a, c)), planOf(udp("10.96.0.1:53", b, c))}
	w := begun(false, steps[0])
	for i := range 9 {
		from, to := steps[i%3], steps[i%3+1]
		w.take(change{old: from, new: to}, time.Now())
		due, _ := w.due(time.Now(), 0)
		if i > 0 && len(due.questions()) > 2 {
			t.Errorf("walk %d asks %v", i, lines(due.questions()))
		}
		meanwhile := planOf(udp("10.96.0.1:53", c))
		w.take(change{old: to, new: meanwhile}, time.Now())
		w.done(due, 0, time.Now())
		if diff := cmp.Diff(map[bool]string{true: "udp by 10.0.0.1:53", false: "udp by 10.0.0.2:53"}[i%3 == 1], strings.Join(lines(w.questions()), ", ")); diff != "" {
			t.Errorf("in doubt after walk %d (-want +got):\n%s", i, diff)
		}
		w.take(change{old: meanwhile, new: steps[(i+1)%3]}, time.Now())
	}

	begin, grace := time.Now(), 5*time.Second
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	w = newWork(newTable(true))
	first, second := tcp("10.96.0.1:80", a), tcp("10.96.0.2:80", a)
	w.take(change{new: planOf(first, second)}, at(0))
	w.take(change{old: planOf(first), new: planOf()}, at(1))
	w.take(change{old: planOf(second), new: planOf()}, at(5))
	p := place{objects.TCP, netip.MustParseAddrPort("10.96.0.1:80")}
	for _, s := range []float64{5, 9, 9.9} {
		due, _ := w.due(at(s), grace)
		w.done(due, grace, at(s+2)) // walks may take their time
	}
	if due, _ := w.due(at(20), grace); due.judge(fakeFlow(1, objects.TCP, "10.96.0.1:80", a)) != reset {
		t.Error("the frontend is forgotten before its endpoint's grace time is over")
	} else if w.done(due, grace, at(20)); w.claims[p].was != nil {
		t.Error("the frontend is never forgotten")
	}
}

// A flow that was not asked for is told from one that was, by each part of the question: it shows that a kernel
// does not know of filters.
func TestFilterMatches(t *testing.T) {
	four, six := netip.MustParseAddrPort("10.0.0.1:53"), netip.MustParseAddrPort("[fd00::1]:53")
	at := func(a netip.AddrPort, port uint16) netip.AddrPort { return netip.AddrPortFrom(a.Addr(), port) }
	f := flow{protocol: objects.UDP, dst: four, from: at(four, 1053)}
	f6 := flow{protocol: objects.UDP, dst: six, from: at(six, 1053)}
	for _, c := range []struct {
		q    filter
		f    flow
		want bool
	}{
		{toward(objects.UDP, four), f, true},
		{toward(objects.TCP, four), f, false},
		{toward(objects.UDP, at(four, 54)), f, false},
		{toward(objects.UDP, netip.MustParseAddrPort("10.0.0.2:53")), f, false},
		{toward(objects.UDP, six), f, false},
		{toward(objects.UDP, six), f6, true},
		{toward(objects.UDP, netip.MustParseAddrPort("[fd00::2]:53")), f6, true}, // the port alone is asked for
		{toward(objects.UDP, at(six, 54)), f6, false},
		{answeredBy(objects.UDP, f.from), f, true},
		{answeredBy(objects.UDP, at(four, 1054)), f, false},
		{answeredBy(objects.UDP, four), f, false},
		{answeredBy(objects.UDP, netip.MustParseAddrPort("10.0.0.2:1053")), f, false},
		{filter{protocol: objects.UDP}, f, true},
		{filter{protocol: objects.UDP}, f6, false},
		{filter{protocol: objects.UDP, ipv6: true}, f, false},
	} {
		if got := c.q.matches(c.f); got != c.want {
			t.Errorf("%s: matches %s %t", c.q, c.f, got)
		}
	}
}
