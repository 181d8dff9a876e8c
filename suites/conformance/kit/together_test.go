package kit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

// diary has what was done, in order.
type diary struct {
	mu   sync.Mutex
	text []string
}

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text = append(d.text, what)
}

func (d *diary) lines() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.text)
}

// await waits until a line is there.
func (d *diary) await(line string) {
	for {
		d.mu.Lock()
		there := slices.Contains(d.text, line)
		d.mu.Unlock()
		if there {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// noted is an act that is written down.
type noted struct {
	*diary
	name        string
	fails, left error // when it is done, and undone
	panics      bool
}

func (n noted) Do(context.Context, disrupt.World) (disrupt.Undo, error) {
	n.note("did " + n.name)
	if n.panics {
		panic("a mistake")
	}
	return func(context.Context) error { n.note("undid " + n.name); return n.left }, n.fails
}

var errBroken = errors.New("broken")

// What the runs of a behaviour in both families do to the cluster is done once, when both have come to it, and undone
// when neither uses it any more; one that has ended is waited for no more.
func TestTogether(t *testing.T) {
	const both = "pass, pass"
	for name, c := range map[string]struct {
		run  func(s *Spec, d *diary, one bool) // of one of the two, and of the other
		did  string
		came string // of them, in the order of the alphabet; empty: as it comes
	}{
		"as it should": {func(s *Spec, d *diary, _ bool) {
			d.note("before")
			undo := s.disrupt(noted{diary: d, name: "it"}, nil, "it")
			d.note("within")
			undo()
			d.note("after")
		}, "before, before, did it, within, within, undid it, after, after", both},
		"one fails before": {func(s *Spec, d *diary, one bool) {
			if one {
				s.Fail("no")
			}
			s.disrupt(noted{diary: d, name: "it"}, nil, "it")()
			d.note("after")
		}, "did it, undid it, after", "fail, pass"},
		"one fails within": {func(s *Spec, d *diary, one bool) {
			undo := s.disrupt(noted{diary: d, name: "it"}, nil, "it")
			if one {
				s.Fail("no")
			}
			undo()
			d.note("after")
		}, "did it, undid it, after", "fail, pass"},
		"one within another, left for the end": {func(s *Spec, d *diary, _ bool) {
			undo := s.disrupt(noted{diary: d, name: "it"}, nil, "it")
			s.disrupt(noted{diary: d, name: "more"}, nil, "more")
			undo()
		}, "did it, did more, undid it, undid more", both},
		"it cannot be done": {func(s *Spec, d *diary, _ bool) {
			s.disrupt(noted{diary: d, name: "it", fails: errBroken}, nil, "it")
		}, "did it, undid it" + strings.Repeat(", did it, undid it", 2*anew), "inconclusive, inconclusive"}, // each made anew by itself
		"it cannot be undone": {func(s *Spec, d *diary, _ bool) {
			s.disrupt(noted{diary: d, name: "it", left: errBroken}, nil, "it")()
		}, "did it, undid it", "inconclusive, inconclusive"}, // and none is made anew
		"it cannot be undone, and one is late": {func(s *Spec, d *diary, one bool) {
			s.onEnd(func() error { d.note("ended"); return nil }) // after it let go
			undo := s.disrupt(noted{diary: d, name: "it", left: errBroken}, nil, "it")
			late(s, one)
			d.await("ended")
			undo()
		}, "did it, ended, undid it, ended", "inconclusive, inconclusive"},
		"who does it panics": {func(s *Spec, d *diary, _ bool) {
			if d.lines() > 0 { // made anew
				return
			}
			s.disrupt(noted{diary: d, name: "it", panics: true}, nil, "it")
		}, "did it", "inconclusive, pass"},
		"others do something else": {func(s *Spec, d *diary, one bool) {
			if d.lines() < 2 { // else made anew
				s.disrupt(noted{diary: d, name: "it"}, nil, map[bool]string{true: "it", false: "more"}[one])
				d.note("within")
			}
		}, "did it, within, undid it", both},
		"one after another": {func(s *Spec, d *diary, _ bool) {
			s.disrupt(noted{diary: d, name: "it"}, nil, "it")()
			d.note("between")
			s.disrupt(noted{diary: d, name: "more"}, nil, "more")()
		}, "did it, undid it, between, between, did more, undid more", both},
		"one does more": {func(s *Spec, d *diary, one bool) {
			undo := s.disrupt(noted{diary: d, name: "it"}, nil, "it")
			if one {
				s.disrupt(noted{diary: d, name: "more"}, nil, "more") // while the other one waits
			}
			undo()
		}, "did it, did more, undid it, undid more", both},
		"what both leave": {func(s *Spec, d *diary, _ bool) {
			s.together.whenAllEnded(func() error { d.note("renewed"); return errBroken })
			s.disrupt(noted{diary: d, name: "it"}, nil, "it")()
		}, "did it, undid it, renewed", "inconclusive, pass"},
		"what both leave, and one is late": {func(s *Spec, d *diary, one bool) {
			s.onEnd(func() error { d.note("ended"); return nil })
			s.together.whenAllEnded(func() error { d.note("renewed"); return errBroken })
			late(s, one)
			d.await("ended")
		}, "ended, ended, renewed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := &diary{}
			came := runBoth(t, func(s *Spec) { c.run(s, d, s.Family == corev1.IPv4Protocol) })
			if did := strings.Join(d.text, ", "); did != c.did || c.came != "" && came != c.came {
				t.Errorf("%s, of which came %s; want %s, and %s", did, came, c.did, c.came)
			}
		})
	}
}

// One that was kept waiting for long, before an act or until it is undone, is asked by itself.
func TestTogetherApart(t *testing.T) {
	for _, within := range []bool{false, true} {
		d, waits := &diary{}, 0
		came := runBoth(t, func(s *Spec) {
			longs := s.Family == corev1.IPv4Protocol && waits == 0
			if longs {
				waits++
			}
			keep := func(now bool) {
				if longs && now {
					s.kept = waitForOther // by now
				}
			}
			keep(!within)
			undo := s.disrupt(noted{diary: d, name: "it"}, nil, "it")
			d.note("within")
			keep(within)
			undo()
			d.note("after")
		})
		slices.Sort(d.text)
		want := "after, after, did it, did it, undid it, undid it, within, within" + map[bool]string{true: ", within"}[within]
		if did := strings.Join(d.text, ", "); did != want || came != "pass, pass" {
			t.Errorf("within %t: %s, of which came %s", within, did, came)
		}
	}
}

// Who asks for one behaviour at a time gets one family at a time.
func TestNotTogether(t *testing.T) {
	d := &diary{}
	e, b := served(t)
	e.cfg.Dir, e.cfg.Families, e.cfg.Parallel = "", []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, 1
	b.addrs[corev1.IPv6Protocol] = b.addrs[corev1.IPv4Protocol]
	e.Run(t.Context(), []Behaviour{{ID: "x", Serial: true, Shares: true, Run: func(s *Spec) { s.disrupt(noted{diary: d, name: "it"}, nil, "it")() }}}, func(Result) {})
	if did := strings.Join(d.text, ", "); did != "did it, undid it, did it, undid it" {
		t.Error(did)
	}
}

// One of two that is made anew is so by itself, when the other has ended.
func TestTogetherMadeAnew(t *testing.T) {
	d, made := &diary{}, 0
	came := runBoth(t, func(s *Spec) {
		one := s.Family == corev1.IPv4Protocol
		if one {
			made++
		}
		s.disrupt(noted{diary: d, name: "it"}, nil, "it")()
		late(s, one && made == 1)
	})
	if did := strings.Join(d.text, ", "); did != "did it, undid it, did it, undid it" || came != "pass, pass" {
		t.Errorf("%s, of which came %s", did, came)
	}
}

// runBoth runs a behaviour that shares what it does in both families, and says what came of it.
func runBoth(t *testing.T, run func(*Spec)) string {
	t.Helper()
	e, b := served(t)
	e.cfg.Dir, e.cfg.Families, e.cfg.Parallel = "", []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, 2
	b.addrs[corev1.IPv6Protocol] = b.addrs[corev1.IPv4Protocol] // what is asked for is no matter
	var came []string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(t.Context(), []Behaviour{{ID: "x", Serial: true, Shares: true, Run: run}}, func(r Result) { came = append(came, string(r.Result)) })
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("they wait for each other")
	}
	slices.Sort(came)
	return strings.Join(came, ", ")
}

// Who shares what disturbs others has the cluster for itself.
func TestSharesAlone(t *testing.T) {
	b := Behaviour{ID: "x", Says: "It holds.", Level: Should, Profile: ProfileUDP, Promises: []promise.Promise{promise.FlowsCleaned}, Shares: true, Run: func(*Spec) {}}
	if err := b.Check(); err == nil || !strings.Contains(err.Error(), "shares") {
		t.Errorf("beside others: %v", err)
	}
	if b.Serial = true; b.Check() != nil {
		t.Error(b.Check())
	}
	if b.Long = true; b.Check() == nil {
		t.Error("alone, and said to begin before others")
	}
}
