package verdict

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// injection puts trouble into a rollout that loses nothing: between from and to, ms after the
// deletion, on the node that serves.
type injection struct {
	from, to int64
	// meets changes what client and balancer recorded of one attempt, t ms after the deletion;
	// logged says that it is in the balancer's log.
	meets  func(t int64, a *record.Attempt, c *record.Conn) (logged bool)
	polled string // what a direct connection to the node met meanwhile; empty: it went through
}

func (in injection) into(sc scene) Input {
	all := sc.input()
	all.Conns = nil
	turn := 0
	for i := range all.Attempts {
		t := -5000 + int64(i)*10
		a, c := sc.attempt(i, t, &turn)
		if t < in.from || t >= in.to || in.meets(t, &a, &c) {
			all.Conns = append(all.Conns, c)
		}
		all.Attempts[i] = a
	}
	if in.polled != "" {
		all.Events = append(all.Events, polledBetween("n2", in.from, in.to, in.polled)...)
	}
	return all
}

// polledBetween is what a poll every 50 ms records of a state between two times.
func polledBetween(node string, from, to int64, state string) []record.Event {
	at := func(t int64, state string) record.Event {
		return record.Event{Kind: record.KindNodePort, Node: node, State: state, At: deletion + (t+25)*ms, After: deletion + (t-25)*ms}
	}
	return []record.Event{at(from, state), at(to, "ok")}
}

// unanswered ends an attempt without an answer.
func unanswered(a *record.Attempt, phase record.Phase, failure string, after int64) {
	a.Phase, a.Failure, a.End = phase, failure, a.Start+after*ms
	a.FirstByte, a.Status, a.BodyOK, a.Pod, a.Node = 0, 0, false, "", ""
	if phase == record.PhaseDial {
		a.Connected, a.Wrote, a.Src = 0, 0, record.Attempt{}.Src
	}
}

// answeredAfter answers an attempt whose connection to the server took so long.
func answeredAfter(a *record.Attempt, c *record.Conn, dial int64) {
	a.End, a.FirstByte = a.Start+(dial+1)*ms, a.Start+(dial+1)*ms
	c.DialMS, c.TotalMS, c.At = int(dial), int(dial+1), a.End
}

// injectedCase is a second of trouble, and what is to be said of it.
type injectedCase struct {
	name       string
	in         injection
	cause      Cause
	hop        Hop
	lost, slow int
	window     string // node start end touched/of
	explained  bool   // by what was polled
}

func injectedCases() []injectedCase {
	return []injectedCase{
		{
			name: "the balancer's own stack refuses", cause: CauseLBRefused, hop: HopBalancer, lost: 100, window: " 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, _ *record.Conn) bool {
				unanswered(a, record.PhaseDial, "ECONNREFUSED", 1)
				return false
			}},
		},
		{
			name: "the balancer does not answer a SYN", cause: CauseLBSilent, hop: HopBalancer, lost: 100, window: " 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, _ *record.Conn) bool {
				unanswered(a, record.PhaseDial, record.FailTimeout, 10000)
				return false
			}},
		},
		{
			name: "the balancer answers the second SYN", cause: CauseLBSilent, hop: HopBalancer, slow: 100, window: " 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
				a.Connected, a.Wrote, a.FirstByte, a.End, a.Retrans = a.Start+1001*ms, a.Start+1001*ms, a.Start+1002*ms, a.Start+1002*ms, 1
				c.Accepted, c.At = a.Connected, a.End
				return true
			}},
		},
		{
			name: "the balancer stands still", cause: CauseLBSilent, hop: HopBalancer, slow: 100, window: " 7.00 7.99 100/100",
			in: injection{meets: func(t int64, a *record.Attempt, c *record.Conn) bool {
				wait := 8000 + 250 - t // the kernel completes the handshake; HAProxy takes it up later
				a.FirstByte, a.End = a.Start+wait*ms, a.Start+wait*ms
				c.Accepted, c.At = a.End-ms, a.End
				return true
			}},
		},
		{
			name: "a reset between client and balancer", cause: CauseLBReset, hop: HopBalancer, lost: 100, window: " 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
				unanswered(a, record.PhaseRead, "ECONNRESET", 2)
				c.Term = "CD"
				return true
			}},
		},
		{
			name: "the server's SYN is answered after the client's patience", cause: CauseSrvSilent, hop: HopServer, lost: 100, window: "n2 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
				answeredAfter(a, c, 3000)
				return true
			}},
		},
		{
			name: "the server's SYN is answered at the second time", cause: CauseSrvSilent, hop: HopServer, slow: 100, window: "n2 7.00 7.99 100/100", explained: true,
			in: injection{polled: record.FailTimeout, meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
				answeredAfter(a, c, 1000)
				return true
			}},
		},
		{
			name: "the server refuses", cause: CauseSrvRefused, hop: HopServer, lost: 100, window: "n2 7.00 7.99 100/100", explained: true,
			in: injection{polled: "ECONNREFUSED", meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
				unanswered(a, record.PhaseRead, record.FailEOF, 2)
				c.Term, c.DialMS = "SC", -1
				return true
			}},
		},
		{
			name: "the server resets what was open", cause: CauseSrvReset, hop: HopServer, lost: 100, window: "n2 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
				unanswered(a, record.PhaseRead, record.FailEOF, 2)
				c.Term = "SD"
				return true
			}},
		},
		{
			name: "a request gets no answer", cause: CauseSrvSilent, hop: HopServer, lost: 100, window: "n2 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
				unanswered(a, record.PhaseRead, record.FailTimeout, 10000)
				c.Term, c.TotalMS, c.At = "CD", 10000, a.End
				return true
			}},
		},
		{
			name: "another Service's pod on the same node answers", cause: CauseMisrouted, hop: HopNode, lost: 100, window: "n2 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, _ *record.Conn) bool {
				a.Pod, a.UID = "somebody-else", "u9"
				return true
			}},
		},
		{
			name: "a pod of the same name and another identity answers", cause: CauseMisrouted, hop: HopNode, lost: 100, window: "n2 7.00 7.99 100/100",
			in: injection{meets: func(_ int64, a *record.Attempt, _ *record.Conn) bool { a.UID = "u9"; return true }},
		},
	}
}

// TestInjected: what became of a second of trouble, at each hop and of each kind, as client and
// balancer record it. 100 attempts meet it; each is lost or slow, has the right cause or one
// that says what is not known, and lies in one window of that node.
func TestInjected(t *testing.T) {
	for _, tc := range injectedCases() {
		t.Run(tc.name, func(t *testing.T) {
			tc.in.from, tc.in.to = 7000, 8000
			in := tc.in.into(fallbackScene())
			for i, e := range in.Events {
				if e.Kind == record.KindPod {
					in.Events[i].UID = "uid"
				}
			}
			for i := range in.Attempts {
				if a := &in.Attempts[i]; a.UID != "u9" {
					a.UID = "uid"
				}
			}
			r := Judge(in)
			causes := map[Cause]int{}
			for _, m := range []map[Cause]int{r.Causes, r.SlowCauses} {
				for c, n := range m {
					causes[c] += n
				}
			}
			if r.Lost != tc.lost || r.Slow != tc.slow || causes[tc.cause] != 100 || len(causes) != 1 || tc.cause.Hop() != tc.hop {
				t.Errorf("lost %d, slow %d, causes %v at %q; want %d, %d, 100 %s at %q", r.Lost, r.Slow, causes, tc.cause.Hop(), tc.lost, tc.slow, tc.cause, tc.hop)
			}
			slow := tc.slow
			if tc.hop == HopBalancer { // no dataplane's doing
				slow = 0
			}
			if r.LostSound != tc.lost || r.SlowSound != slow {
				t.Errorf("at sound moments lost %d, slow for what may be a dataplane's doing %d; want %d and %d", r.LostSound, r.SlowSound, tc.lost, slow)
			}
			windows := ""
			for _, w := range r.NodeWindows {
				windows += fmt.Sprintf("%s %.2f %.2f %d/%d", w.Node, w.Start, w.End, w.Lost+w.Slow, w.Of)
			}
			if windows != tc.window {
				t.Errorf("windows %q, want %q", windows, tc.window)
			}
			if r.Reconstruction.Within != tc.explained {
				t.Errorf("reconstruction %+v, want within %v", r.Reconstruction, tc.explained)
			}
		})
	}
}

// A hundred losses that nothing explains, and as many explained ones that did not happen.
func TestOppositeErrorsDoNotCancel(t *testing.T) {
	in := injection{from: 7000, to: 8000, meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
		unanswered(a, record.PhaseRead, record.FailEOF, 2)
		c.Term, c.DialMS = "SC", -1
		return true
	}}.into(fallbackScene())
	in.Events = append(in.Events, polledBetween("n2", 9000, 10000, "ECONNREFUSED")...)
	r := Judge(in)
	if rec := r.Reconstruction; rec.Within || rec.Residual > 5 || rec.Residual < -5 || rec.Unexplained < 180 {
		t.Errorf("lost %d, %+v: want a residual near 0 with about 200 unexplained", r.Lost, rec)
	}
}

// A silence of 3 s that ends: on Linux from 6.5 on what began in its last 2 s is answered in
// time, before that what began in its last second.
func TestSilenceThatEnds(t *testing.T) {
	for linear, resends := range map[int][]int64{4: {1000, 2000, 3000}, 0: {1000, 3000, 7000}} {
		in := injection{from: 7000, to: 10000, polled: record.FailTimeout, meets: func(t int64, a *record.Attempt, c *record.Conn) bool {
			for _, again := range resends {
				if t+again >= 10000 {
					answeredAfter(a, c, again)
					return true
				}
			}
			panic("no resend is late enough")
		}}.into(fallbackScene())
		in.Settings.SYN = SYNs{Linear: linear, Retries: 6}
		r := Judge(in)
		lost := map[int]int{4: 100, 0: 200}[linear]
		if rec := r.Reconstruction; r.Lost != lost || r.Slow != 300-lost || !rec.Within {
			t.Errorf("%d linear waits: lost %d, slow %d, %+v; want %d lost, all explained", linear, r.Lost, r.Slow, rec, lost)
		}
		if len(r.NodeWindows) != 1 || r.NodeWindows[0].Inner() < 2.98 {
			t.Errorf("%d linear waits: windows %+v, want one of 3 s, lost and slow", linear, r.NodeWindows)
		}
	}
}

// What the control stream met at the same moment is the host's; and what was lost while the
// host was sound counts though it was not at another moment.
func TestSoundMoments(t *testing.T) {
	refused := injection{from: 7000, to: 8000, polled: "ECONNREFUSED", meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
		unanswered(a, record.PhaseRead, record.FailEOF, 2)
		c.Term, c.DialMS = "SC", -1
		return true
	}}
	in := refused.into(fallbackScene())
	for i := range in.Control {
		c := &in.Control[i] // one every 50 ms
		t := -5000 + int64(i)*50
		c.Intended, c.Start = deletion+t*ms, deletion+t*ms
		c.Connected, c.End = c.Start+ms, c.Start+2*ms
		if t >= 7500 && t < 8000 {
			unanswered(c, record.PhaseDial, record.FailTimeout, 1000)
		}
	}
	r := Judge(in)
	if r.Valid || r.Lost != 100 || r.Causes[CauseSrvRefused] != 100 || r.LostSound != 100 {
		t.Errorf("control failed meanwhile: valid %v, lost %d, causes %v, sound %d: a stall refuses nobody", r.Valid, r.Lost, r.Causes, r.LostSound)
	}
	silent := injection{from: 7000, to: 8000, meets: func(_ int64, a *record.Attempt, c *record.Conn) bool {
		unanswered(a, record.PhaseRead, record.FailTimeout, 10000)
		c.Term, c.At = "CD", a.End
		return true
	}}.into(fallbackScene())
	silent.Control = in.Control
	r = Judge(silent) // trouble from 7.4 s to 9.1 s: all of them still waited then
	if r.Lost != 100 || r.Causes[CauseHarness] != 100 || r.LostSound != 0 {
		t.Errorf("no answer while control failed: lost %d, causes %v, sound %d", r.Lost, r.Causes, r.LostSound)
	}
	unconnected := silent
	unconnected.Conns = slices.Clone(silent.Conns)
	for i, c := range unconnected.Conns {
		if c.Term == "CD" {
			unconnected.Conns[i].Term, unconnected.Conns[i].DialMS = "sC", -1
		}
	}
	r = Judge(unconnected) // SYNs were sent again: no stall does that
	if r.Lost != 100 || r.Causes[CauseHarness] != 0 || r.LostSound != 100 {
		t.Errorf("no connection while control failed: lost %d, causes %v, sound %d", r.Lost, r.Causes, r.LostSound)
	}
	for i := range silent.Control { // and long after the clients had given up
		if c := &silent.Control[i]; c.Phase == record.PhaseDial {
			c.Intended, c.Start, c.End = c.Intended+4000*ms, c.Start+4000*ms, c.End+4000*ms
		}
	}
	r = Judge(silent)
	if r.Lost != 100 || r.Causes[CauseHarness] != 0 || r.LostSound != 100 {
		t.Errorf("no answer, control failed later: lost %d, causes %v, sound %d", r.Lost, r.Causes, r.LostSound)
	}

	in = refused.into(fallbackScene())
	for i := range in.Attempts { // late, before anything was lost
		if a := &in.Attempts[i]; i%40 == 0 && i < 1000 {
			a.Intended -= 50 * ms
		}
	}
	r = Judge(in)
	if r.Valid || r.Lost != 100 || r.LostSound != 100 {
		t.Errorf("late elsewhere: valid %v %v, lost %d, sound %d", r.Valid, r.Reasons, r.Lost, r.LostSound)
	}

	in = slowed(fallbackScene().input()) // at 100 and 510; control attempts are all at one time
	in.Control[0].Start, in.Control[0].Intended = in.Attempts[510].Start, in.Attempts[510].Start
	in.Control[0].Connected, in.Control[0].End = in.Control[0].Start+ms, in.Control[0].Start+300*ms
	r = Judge(in)
	if r.Harness.ControlSlow != 1 || r.Slow != 2 || r.SlowCauses[CauseHarness] != 1 || len(r.NodeWindows) != 1 {
		t.Errorf("a stalled host: control slow %d, slow %d, causes %v, windows %+v", r.Harness.ControlSlow, r.Slow, r.SlowCauses, r.NodeWindows)
	}
}

// A stream of one family is judged by the states and connections of that family alone.
func TestFamilies(t *testing.T) {
	in := dropScene().input()
	in.Settings.Family = record.IPv4
	want := Judge(dropScene().input())
	for i, e := range in.Events {
		switch e.Kind {
		case record.KindServer, record.KindNodePort, record.KindHCNP:
			in.Events[i].Family = record.IPv4
			other := e
			other.Family, other.State = record.IPv6, "nonsense"
			in.Events = append(in.Events, other)
		}
	}
	for _, c := range in.Conns[:500] {
		c.Client = netip.AddrPortFrom(netip.MustParseAddr("fd00::1"), c.Client.Port())
		in.Conns = append(in.Conns, c)
	}
	got := Judge(in)
	got.Series, want.Series = Series{}, Series{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("beside another family (-alone +beside):\n%s", diff)
	}
	in.Settings.Family = record.IPv6
	if r := Judge(in); r.Valid || r.Harness.Joined != 0 {
		t.Errorf("with states and connections of the other family: valid %v, %d joined", r.Valid, r.Harness.Joined)
	}
}

// What decides between a stalled host, the balancer and the node, of an attempt whose client
// waited in vain or long: packets that went no further, before the client's own resends.
func TestWhoKeptARequest(t *testing.T) {
	sick := moments{known: true, sicks: []struct{ from, to int64 }{{s1, 3 * s1}}}
	well := moments{known: true}
	for _, tc := range []struct {
		name    string
		class   Class
		harness moments
		retrans int
		trail   trail
		want    Cause
	}{
		{"the host stalled", RespTimeout, sick, 0, trailUnknown, CauseHarness},
		{"the host stalled, and the pod was late", RespTimeout, sick, 0, trailPodLate, CauseHarness},
		{"the node kept packets while the host stalled", RespTimeout, sick, 0, trailNodeSilent, CauseNodeDrop},
		{"the client sent again", OKRetrans, well, 1, trailUnknown, CauseLBSilent},
		{"the client sent again, and the node kept packets", OKRetrans, well, 1, trailNodeSilent, CauseNodeDrop},
		{"nobody sent again", RespTimeout, well, 0, trailUnknown, CauseSrvSilent},
	} {
		a := record.Attempt{Start: s1, Connected: s1 + ms, End: 5 * s1, Retrans: tc.retrans}
		c := &record.Conn{Server: "n1", Accepted: a.Connected}
		e := evidence{outcome: outcome{Attempt: a, class: tc.class, conn: c, node: "n1"}, tl: timeline.New(nil), harness: tc.harness,
			s: Settings{LB: service, Timeout: 2500 * time.Millisecond}, trail: tc.trail}
		if got := causeOf(e); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// A loss counts if the harness was sound: not if it was sent late, or waited for a balancer that
// was full, or nobody looked at the host.
func TestSound(t *testing.T) {
	lost := outcome{class: EOFBeforeResp, Attempt: record.Attempt{Intended: s1, Start: s1, End: s1 + ms}, conn: &record.Conn{}}
	s := Settings{Timeout: 2500 * time.Millisecond, Limits: DefaultLimits()}
	if !lost.sound(moments{known: true}, s) {
		t.Error("a loss on time is not sound")
	}
	late, full := lost, lost
	late.Intended -= 11 * ms
	full.conn = &record.Conn{Full: true}
	if late.sound(moments{known: true}, s) || full.sound(moments{known: true}, s) || lost.sound(moments{}, s) {
		t.Error("late, full or unwatched, and sound")
	}
}

// Servers that take turns have one attempt more or less in any second; one alone has all.
func TestLedgerAllowsTurns(t *testing.T) {
	for part, want := range map[float64]float64{1: 1, 0.5: 0} {
		l := ledger{}
		for range 10 {
			l.at("n1", s1).expect(share{node: "n1", part: part, lost: true, could: outcomes{lost: true}})
		}
		l.at("n1", s1).lost.measured = int(10*part) - 1
		if got := l.unexplained(); got != want {
			t.Errorf("one loss less than of %g of ten: %g unexplained, want %g", part, got, want)
		}
	}
}
