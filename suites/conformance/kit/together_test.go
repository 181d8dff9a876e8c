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

// noted is an act that is written down.
type noted struct {
	*diary
	name  string
	fails error
}

func (n noted) Do(context.Context, disrupt.World) (disrupt.Undo, error) {
	n.note("did " + n.name)
	return func(context.Context) error { n.note("undid " + n.name); return nil }, n.fails
}

// What the runs of a behaviour in both families do to the cluster is done once, when both have come to it, and undone
// when neither uses it any more; one that has ended is waited for no more.
func TestTogether(t *testing.T) {
	const both = "pass, pass"
	for name, c := range map[string]struct {
		run  func(s *Spec, d *diary, one bool) // of one of the two, and of the other
		did  string
		came string // of them, in the order of the alphabet
	}{
		"as it should": {func(s *Spec, d *diary, _ bool) {
			d.note("before")
			undo := s.disrupt(noted{d, "it", nil}, nil, "it")
			d.note("within")
			undo()
			d.note("after")
		}, "before, before, did it, within, within, undid it, after, after", both},
		"one fails before": {func(s *Spec, d *diary, one bool) {
			if one {
				s.Fail("no")
			}
			s.disrupt(noted{d, "it", nil}, nil, "it")()
			d.note("after")
		}, "did it, undid it, after", "fail, pass"},
		"one fails within": {func(s *Spec, d *diary, one bool) {
			undo := s.disrupt(noted{d, "it", nil}, nil, "it")
			if one {
				s.Fail("no")
			}
			undo()
			d.note("after")
		}, "did it, undid it, after", "fail, pass"},
		"one within another, left for the end": {func(s *Spec, d *diary, _ bool) {
			undo := s.disrupt(noted{d, "it", nil}, nil, "it")
			s.disrupt(noted{d, "more", nil}, nil, "more")
			undo()
		}, "did it, did more, undid it, undid more", both},
		"it cannot be done": {func(s *Spec, d *diary, _ bool) {
			s.disrupt(noted{d, "it", errors.New("broken")}, nil, "it")
		}, "did it, undid it" + strings.Repeat(", did it, undid it", 2*anew), "inconclusive, inconclusive"}, // each made anew by itself
		"one does more": {func(s *Spec, d *diary, one bool) {
			undo := s.disrupt(noted{d, "it", nil}, nil, "it")
			if one {
				s.disrupt(noted{d, "more", nil}, nil, "more") // while the other one waits
			}
			undo()
		}, "did it, did more, undid it, undid more", both},
		"what both leave": {func(s *Spec, d *diary, _ bool) {
			s.together.whenAllEnded(func() error { d.note("renewed"); return errors.New("broken") })
			s.disrupt(noted{d, "it", nil}, nil, "it")()
		}, "did it, undid it, renewed", "inconclusive, pass"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &diary{}
			came := runBoth(t, func(s *Spec) { c.run(s, d, s.Family == corev1.IPv4Protocol) })
			if did := strings.Join(d.text, ", "); did != c.did || came != c.came {
				t.Errorf("%s, of which came %s; want %s, and %s", did, came, c.did, c.came)
			}
		})
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
		s.disrupt(noted{d, "it", nil}, nil, "it")()
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
	e.cfg.Dir, e.cfg.Families = "", []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
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
