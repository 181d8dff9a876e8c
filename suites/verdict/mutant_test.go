package verdict

import (
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// mutant is a classifier broken on purpose.
type mutant struct {
	name     string
	classify classifier
}

// edited classifies a falsified attempt.
func edited(edit func(*record.Attempt)) classifier {
	return func(a record.Attempt, t time.Duration) Class {
		edit(&a)
		return Classify(a, t)
	}
}

// relabelled says to where Classify says from.
func relabelled(to Class, from ...Class) classifier {
	return func(a record.Attempt, t time.Duration) Class {
		c := Classify(a, t)
		for _, f := range from {
			if c == f {
				return to
			}
		}
		return c
	}
}

func mutants() []mutant {
	ms := []mutant{
		{"masks failures while the body is read", edited(func(a *record.Attempt) {
			if a.Phase == record.PhaseBody {
				a.Phase, a.Failure, a.Status, a.BodyOK = record.PhaseDone, "", 200, true
			}
		})},
		{"takes EOF for an answer", edited(func(a *record.Attempt) {
			if a.Failure == record.FailEOF {
				a.Phase, a.Failure, a.Status, a.BodyOK = record.PhaseDone, "", 200, true
			}
		})},
		{"takes any failure for success", func(record.Attempt, time.Duration) Class { return OK }},
		{"ignores the client's patience", func(a record.Attempt, _ time.Duration) Class { return Classify(a, time.Hour) }},
		{"waits twice as long", func(a record.Attempt, t time.Duration) Class { return Classify(a, 2*t) }},
		{"measures from the planned time", edited(func(a *record.Attempt) { a.Start = a.Intended })},
		{"measures from the handshake", edited(func(a *record.Attempt) {
			if a.Connected > 0 {
				a.Start = a.Connected
			}
		})},
		{"forgets the phase", edited(func(a *record.Attempt) {
			if a.Phase == record.PhaseBody || a.Phase == record.PhaseWrite {
				a.Phase = record.PhaseRead
			}
		})},
		{"does not look at the status", edited(func(a *record.Attempt) {
			if a.Status != 0 {
				a.Status, a.BodyOK = 200, true
			}
		})},
		{"does not look at the body", edited(func(a *record.Attempt) { a.BodyOK = true })},
		{"does not look at the pod's name", edited(func(a *record.Attempt) { a.Pod = "" })},
		{"does not see retransmits", edited(func(a *record.Attempt) { a.Retrans = 0 })},
		{"does not see SIGTERM", edited(func(a *record.Attempt) { a.Terminating = false })},
		{"counts slow as lost", relabelled(RespTimeout, OKSlow, OKSlowConnect, OKRetrans)},
		{"counts terminating as lost", relabelled(EOFBeforeResp, OKFromTerminating)},
		{"counts the harness as lost", relabelled(DialTimeout, NotSent, DialLocal)},
		{"counts the harness as good", relabelled(OK, NotSent, DialLocal)},
		{"blames the harness for refusals", relabelled(DialLocal, DialRefused)},
		{"takes the unknown for success", relabelled(OK, Unclassified)},
	}
	for _, c := range allClasses() {
		if c == WrongBackend { // not the classifier's, but the join's
			continue
		}
		to := OK
		if c == OK {
			to = RespTimeout
		}
		ms = append(ms,
			mutant{"takes " + string(c) + " for " + string(to), relabelled(to, c)},
			mutant{"confuses " + string(c), relabelled("other", c)})
	}
	return ms
}

// TestMutants: every broken classifier is caught by a case, and every case
// catches one: a case that no fault can fail would prove nothing.
func TestMutants(t *testing.T) {
	type named struct {
		name  string
		check func(classifier) error
	}
	var cases []named
	for _, c := range classCases() {
		cases = append(cases, named{c.name, c.check})
	}
	for _, c := range sceneCases() {
		cases = append(cases, named{c.name, c.check})
	}
	in := live(t)
	cases = append(cases, named{"live", func(classify classifier) error { return checkLive(in, classify) }})

	useful := map[string]bool{}
	for _, m := range mutants() {
		caught := ""
		for _, c := range cases {
			if c.check(m.classify) != nil {
				useful[c.name] = true
				caught = c.name
			}
		}
		if caught == "" {
			t.Errorf("not caught: a classifier that %s", m.name)
		}
	}
	for _, m := range mutants()[:4] { // those that would falsify a headline
		if checkLive(in, m.classify) == nil {
			t.Errorf("the live rollout does not catch a classifier that %s", m.name)
		}
	}
	for _, c := range cases {
		if err := c.check(Classify); err != nil {
			t.Errorf("the classifier itself: %v", err)
		}
		if !useful[c.name] {
			t.Errorf("case %q catches no broken classifier", c.name)
		}
	}
}
