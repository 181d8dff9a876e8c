package kit

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// What could not be judged is made anew, as often as it may be, and the report says so; what failed, panicked
// or left something behind is not.
func TestMadeAnew(t *testing.T) {
	for name, c := range map[string]struct {
		run    func(s *Spec, n int) // n counts from 1
		before int                  // of the run that were made anew
		result conformance.Result
		made   int
	}{
		"passes":                {func(*Spec, int) {}, 0, ResultPass, 1},
		"late once":             {func(s *Spec, n int) { late(s, n == 1) }, 0, ResultPass, 2},
		"late for ever":         {func(s *Spec, _ int) { late(s, true) }, 0, ResultInconclusive, 1 + anew},
		"late, then fails":      {func(s *Spec, n int) { late(s, n == 1); s.Fail("not so") }, 0, ResultFail, 2},
		"held up, then passes":  {func(s *Spec, n int) { silent(s, n == 1) }, 0, ResultPass, 2},
		"fails":                 {func(s *Spec, _ int) { s.Fail("not so") }, 0, ResultFail, 1},
		"panics":                {func(*Spec, int) { panic("a mistake") }, 0, ResultInconclusive, 1},
		"late, leaves things":   {func(s *Spec, _ int) { s.onEnd(func() error { return errors.New("stays") }); late(s, true) }, 0, ResultInconclusive, 1},
		"cannot be asked":       {func(s *Spec, _ int) { s.Skip("no") }, 0, ResultSkip, 1},
		"too many in the run":   {func(s *Spec, _ int) { late(s, true) }, anewInAll, ResultInconclusive, 1},
		"the last of a run's":   {func(s *Spec, _ int) { late(s, true) }, anewInAll - 1, ResultInconclusive, 2},
		"evidence of the first": {func(s *Spec, n int) { s.keep(map[bool]string{true: "a", false: "b"}[n == 1], "x"); late(s, n == 1) }, 0, ResultPass, 2},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := served(t)
			e.repeats, e.cfg.Families = c.before, []corev1.IPFamily{corev1.IPv4Protocol}
			n, r := 0, Result{}
			e.Run(t.Context(), []Behaviour{{ID: "x", Run: func(s *Spec) { n++; c.run(s, n) }}}, func(one Result) { r = one })
			said := strings.Count(strings.Join(r.Said, "\n"), "made anew, for it could not be judged: ")
			if r.Result != c.result || n != c.made || said != n-1 {
				t.Errorf("%s (%s) after %d times, of which it says %d; want %s after %d", r.Result, r.Reason, n, said, c.result, c.made)
			}
			if strings.HasPrefix(name, "evidence") && len(r.Evidence) != 2 {
				t.Errorf("evidence is %q", r.Evidence)
			}
		})
	}
}

// late is a client that had no processor.
func late(s *Spec, so bool) {
	if so {
		s.sound(s.Outside(), TCP(netip.MustParseAddrPort("192.0.2.2:9")), &remote.Results{Attempts: []remote.Result{{Class: remote.OK, Late: 2 * starved}}})
	}
}

// silent is a server that does not answer a client that has no processor when the time is over.
func silent(s *Spec, so bool) {
	if so {
		to := TCP(netip.MustParseAddrPort("192.0.2.2:9"))
		s.All(s.Outside(), to, &remote.Results{Attempts: []remote.Result{{Class: remote.Timeout, Late: 2 * heldUp}}}, s.Nodes[0].Client)
	}
}

// A failure is the dataplane's unless every answer that is missing was due while the client stood still.
func TestHeldUp(t *testing.T) {
	ok, other := remote.Result{Class: remote.OK, Name: "b"}, remote.Result{Class: remote.OK, Name: "c"}
	timeout := func(late time.Duration) remote.Result { return remote.Result{Class: remote.Timeout, Late: late} }
	refused := remote.Result{Class: remote.Refused, Late: time.Second}
	b := []Client{{Name: "b"}}
	for name, c := range map[string]struct {
		t    trial
		want bool
	}{
		"nothing was tried":       {trial{}, false},
		"held up":                 {trial{servers: b, res: came(ok, timeout(2*heldUp))}, true},
		"in time":                 {trial{servers: b, res: came(ok, timeout(heldUp/2))}, false},
		"one of them in time":     {trial{servers: b, res: came(timeout(2*heldUp), timeout(0))}, false},
		"all answered":            {trial{servers: b, res: came(ok)}, false},
		"another answered, too":   {trial{servers: b, res: came(other, timeout(2*heldUp))}, false},
		"refused":                 {trial{servers: b, res: came(refused, timeout(2*heldUp))}, false},
		"silence was wanted":      {trial{res: came(timeout(2 * heldUp))}, false},
		"connections were wanted": {trial{stand: true, res: came(other, timeout(2*heldUp))}, true},
		"a stream":                {trial{servers: b, beside: true, res: came(ok, timeout(2*heldUp))}, false},
		"HTTP, in time":           {trial{path: "/", late: heldUp / 2}, false},
		"HTTP, held up":           {trial{path: "/", late: 2 * heldUp}, true},
	} {
		if got := c.t.heldUp(); got != c.want {
			t.Errorf("%s: held up %t", name, got)
		}
	}
}

func came(all ...remote.Result) *remote.Results { return &remote.Results{Attempts: all} }
