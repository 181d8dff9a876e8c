package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

// quietStage has nothing but a load balancer with a profile.
type quietStage struct{ Stage }

func (quietStage) LB() LB                   { return logged{} }
func (quietStage) Cluster() cluster.Cluster { return nil }
func (quietStage) Kind() string             { return "quiet" }

// deed is an act that notes what becomes of it.
type deed struct {
	name       string
	log        *[]string
	fails      error
	undoFails  error
	interrupts context.CancelFunc
}

func (d deed) Do(context.Context, disrupt.World) (disrupt.Undo, error) {
	*d.log = append(*d.log, "do "+d.name)
	if d.interrupts != nil {
		d.interrupts()
	}
	return func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		*d.log = append(*d.log, "undo "+d.name)
		return d.undoFails
	}, d.fails
}

// stepping is a play of steps, and what it records.
func stepping(t *testing.T, steps ...scenario.Step) (*play, *live, func() []record.Event) {
	t.Helper()
	dir := t.TempDir()
	to, err := tape.Create(dir, verdict.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	p := &play{runner: &runner{stage: quietStage{}, Run: scenario.Run{Timeouts: scenario.Timeouts{Settle: time.Second}}},
		Scenario: scenario.Scenario{Steps: steps, Policy: corev1.ServiceExternalTrafficPolicyLocal}}
	return p, newLive(to, []tape.Stream{{Name: record.Main}}), func() []record.Event {
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		in, err := tape.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		return in[0].Events
	}
}

func does(d deed) func(scenario.Now) disrupt.Act { return func(scenario.Now) disrupt.Act { return d } }

// However the steps end, what was done is taken back, last first, once; and each is on record.
func TestStepsAreTakenBack(t *testing.T) {
	no := errors.New("told to fail")
	for name, c := range map[string]struct {
		steps func(log *[]string, stop context.CancelFunc) []scenario.Step
		want  []string
		notes []string
		err   error
	}{
		"to their end": {func(log *[]string, _ context.CancelFunc) []scenario.Step {
			return []scenario.Step{{Name: "one", Do: does(deed{name: "a", log: log})}, {Do: does(deed{name: "b", log: log})}}
		}, []string{"do a", "do b", "undo b", "undo a"}, []string{"one"}, nil},
		"taken back by a step": {func(log *[]string, _ context.CancelFunc) []scenario.Step {
			return []scenario.Step{{Do: does(deed{name: "a", log: log})}, {Name: record.ActHealed, Undo: true}, {Name: "settled"}}
		}, []string{"do a", "undo a"}, []string{record.ActHealed, "settled"}, nil},
		"an act fails": {func(log *[]string, _ context.CancelFunc) []scenario.Step {
			return []scenario.Step{{Do: does(deed{name: "a", log: log})}, {Do: does(deed{name: "b", log: log, fails: no})}, {Do: does(deed{name: "c", log: log})}}
		}, []string{"do a", "do b", "undo b", "undo a"}, nil, no},
		"interrupted": {func(log *[]string, stop context.CancelFunc) []scenario.Step {
			return []scenario.Step{{Do: does(deed{name: "a", log: log, interrupts: stop})}, {Wait: time.Hour}}
		}, []string{"do a", "undo a"}, nil, context.Canceled},
		"waits in vain": {func(log *[]string, _ context.CancelFunc) []scenario.Step {
			never := scenario.Condition{Says: "pigs fly", Holds: func(scenario.Now) bool { return false }}
			return []scenario.Step{{Do: does(deed{name: "a", log: log})}, {When: never, Do: does(deed{name: "b", log: log})}}
		}, []string{"do a", "undo a"}, nil, context.DeadlineExceeded},
		"cannot be taken back": {func(log *[]string, _ context.CancelFunc) []scenario.Step {
			return []scenario.Step{{Do: does(deed{name: "a", log: log})}, {Do: does(deed{name: "b", log: log, undoFails: no})}}
		}, []string{"do a", "do b", "undo b", "undo a"}, nil, errDisturbed},
	} {
		t.Run(name, func(t *testing.T) {
			var log []string
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			p, l, events := stepping(t, c.steps(&log, stop)...)
			err := p.steps(ctx, l)
			if !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if !slices.Equal(log, c.want) {
				t.Errorf("done %q, want %q", log, c.want)
			}
			var notes []string
			for _, e := range events() {
				notes = append(notes, e.State)
			}
			if !slices.Equal(notes, c.notes) {
				t.Errorf("on record %q, want %q", notes, c.notes)
			}
		})
	}
}

// What is done is on record with whom it is done to.
func TestActsAreNotedWithTheirSubjects(t *testing.T) {
	got := noted("cut", disrupt.CutAPI{Nodes: []string{"n1", "n2"}})
	got = append(got, noted("delete", disrupt.Delete{Pod: "p"})...)
	got = append(got, noted("kill", disrupt.EndLB{LB: disrupt.LB{Service: "ns/echo"}})...)
	want := []record.Event{{State: "cut", Node: "n1"}, {State: "cut", Node: "n2"}, {State: "delete", Pod: "p"}, {State: "kill", LB: "ns/echo"}}
	for i := range got {
		want[i].At, want[i].Kind = got[i].At, record.KindAct
	}
	if !slices.Equal(got, want) || noted("", disrupt.ReloadLB{}) != nil {
		t.Errorf("noted %+v", got)
	}
}

// A condition has to hold without a break, in every family.
func TestAwait(t *testing.T) {
	to, err := tape.Create(t.TempDir(), verdict.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	l := newLive(to, []tape.Stream{{Name: record.Main, Family: record.IPv4}, {Name: record.Second, Family: record.IPv6}})
	up := scenario.Condition{Says: "n1 is UP", Holds: func(n scenario.Now) bool { return slices.Equal(n.Up(n.At), []string{"n1"}) }}
	server := func(f record.Family, state string) record.Event {
		return record.Event{At: record.Now(), Kind: record.KindServer, Node: "n1", State: state, Family: f}
	}
	l.event(server(record.IPv4, "UP"))
	now := scenario.Now{Balanced: true}
	if err := l.await(t.Context(), now, up, 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), "wait until n1 is UP") || !strings.Contains(err.Error(), "[n1]") {
		t.Errorf("in one family: %v", err)
	}
	l.event(server(record.IPv6, "UP"))
	if err := l.await(t.Context(), now, up, 10*time.Second); err != nil {
		t.Error(err)
	}
	l.event(server(record.IPv4, "DOWN"))
	if err := l.await(t.Context(), now, up, 100*time.Millisecond); err == nil {
		t.Error("in the other family alone")
	}
	// By a clock of its own: on a busy host it would hold for long enough before its break.
	synctest.Test(t, func(t *testing.T) {
		flaps, since := 0, time.Time{}
		c := scenario.Condition{Says: "calm", For: 200 * time.Millisecond, Holds: func(scenario.Now) bool {
			if flaps++; flaps == 6 { // once in each of two families, so it has held twice before
				since = time.Now()
				return false
			}
			return true
		}}
		err := l.await(t.Context(), now, c, 10*time.Second)
		if after := time.Since(since); err != nil || since.IsZero() || after < c.For || after > c.For+2*askEvery {
			t.Errorf("%s after a break, %v", after, err)
		}
	})
}

// A scenario that needs what a stage lacks is unsupported there by name.
func TestScenarioThatCannotBeRun(t *testing.T) {
	r := &runner{stage: quietStage{}, nodes: []cluster.Node{{Name: "n1"}}, log: discard}
	p := &play{runner: r, Scenario: scenario.Scenario{Needs: []disrupt.Need{disrupt.NeedNodes}}}
	p.sum.Name = "api-outage"
	if why := p.lacks(); why != "scenario api-outage needs nodes: commands cannot be run in nodes of a cluster of the kind quiet" {
		t.Errorf("says %q", why)
	}
	r.nodes[0].NetNS = "/run/netns/n1"
	if why := p.lacks(); why != "" {
		t.Errorf("with a way into nodes: %q", why)
	}
	p.Needs = []disrupt.Need{disrupt.NeedBalancers}
	if why := p.lacks(); !strings.Contains(why, "needs balancers") {
		t.Errorf("without balancers: %q", why)
	}
}

// reloaded notes where in its interval it was reloaded.
type reloaded struct {
	logged
	at *[]time.Duration
}

func (reloaded) Profile() report.LB { return report.LB{Interval: report.Duration(phaseInterval)} }

func (r reloaded) Reload(context.Context, disrupt.LB) error {
	*r.at = append(*r.at, time.Duration(record.Now())%phaseInterval)
	return nil
}

func (reloaded) End(context.Context, disrupt.LB, bool) error { return errors.New("not to be ended") }

const phaseInterval = 1600 * time.Millisecond

// phasedStage has a load balancer that can be reloaded.
type phasedStage struct {
	quietStage
	lb LB
}

func (s phasedStage) LB() LB { return s.lb }

// The checks begin anew where in their interval the rollout's phase says, and only for scenarios that
// depend on it.
func TestChecksBeginInPhase(t *testing.T) {
	var at []time.Duration
	p := &play{runner: &runner{stage: phasedStage{lb: reloaded{at: &at}}, Run: scenario.Run{Seed: 1}}, params: scenario.Params{Rollouts: 6}}
	if err := p.inPhase(t.Context(), 1); err != nil || len(at) > 0 {
		t.Errorf("a scenario that does not depend on it: reloaded at %v, %v", at, err)
	}
	p.Phased = true
	var late []time.Duration
	for n := 1; n <= 6; n++ {
		if err := p.inPhase(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		late = append(late, (at[n-1]-p.phase(n)+phaseInterval)%phaseInterval)
		t.Logf("rollout %d: reloaded at %s of the interval, the phase is %s", n, at[n-1], p.phase(n))
	}
	// A timer comes late on a busy host, and never early: one alone says how busy that is.
	if slices.Sort(late); late[len(late)/2] > phaseInterval/8 {
		t.Errorf("half of them are later than the phase by more than %s", phaseInterval/8)
	}
	p.stage = quietStage{}
	if err := p.inPhase(t.Context(), 1); err != nil {
		t.Errorf("a load balancer that is none of ours: %v", err)
	}
}
