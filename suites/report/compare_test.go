package report

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/plumbline/plumbline/suites/report/render/rendertest"
	"github.com/plumbline/plumbline/suites/verdict"
	"github.com/plumbline/plumbline/suites/verdict/model"
)

// Two runs agree if chance explains their difference, and only then.
func TestCompare(t *testing.T) {
	base := sample()
	base.Scenarios[0].Rows = base.Scenarios[0].Rows[1:2] // ignore+drop: lost 590, band 412.3 to 790
	for _, tc := range []struct {
		name   string
		mutate func(*Summary)
		want   string
	}{
		{"the same", func(*Summary) {}, ""},
		{"another seed", func(s *Summary) { s.Scenarios[0].Settings.Seed = 7 }, ""},
		{"beyond the model", func(s *Summary) { s.Scenarios[0].Rows[0].Rollouts[0].Lost += 300 }, "lost 295, then 445 per rollout"},
		{"more than chance", func(s *Summary) {
			for i := range s.Scenarios[0].Rows[0].Rollouts {
				s.Scenarios[0].Rows[0].Rollouts[i].Lost += 90
			}
		}, "lost 295, then 385 per rollout"},
		{"one class for another", func(s *Summary) { move(s, verdict.RespTimeout, verdict.EOFBeforeResp) }, "lost as resp_timeout 294, then 0 per rollout; lost as eof_before_resp 1, then 295 per rollout"},
		{"slow", func(s *Summary) { s.Scenarios[0].Rows[0].Rollouts[0].Slow = 200 }, "slow 1, then 100.5 per rollout"},
		{"slower", func(s *Summary) {
			for i := range s.Scenarios[0].Rows[0].Rollouts {
				s.Scenarios[0].Rows[0].Rollouts[i].Latency.P99 = 3
			}
		}, "latency p99 10 ms, then 3000 ms"},
		{"many that do not count", func(s *Summary) { s.Scenarios[0].Rows[0].Invalid = make([]verdict.Rollout, 400) }, "other parts of the rollouts did not count"},
		{"longer windows", func(s *Summary) { s.Scenarios[0].Rows[0].Rollouts[0].NodeWindows[0].End += 9 }, "windows differ by 9.00 s"},
		{"other settings", func(s *Summary) { s.Scenarios[0].Settings.Rate++ }, "other settings"},
		{"another profile", func(s *Summary) { s.LB.Fall++ }, "other settings"},
		{"no model", func(s *Summary) { s.Scenarios[0].Rows[0].Predicted = nil }, ""},
		{"slow, of a busy host", func(s *Summary) {
			s.Scenarios[0].Rows[0].Rollouts[0].Slow, s.Scenarios[0].Rows[0].Rollouts[0].SlowCauses = 200, map[verdict.Cause]int{verdict.CauseHarness: 199}
		}, ""},
		{"nothing ran", func(s *Summary) { s.Scenarios[0].Rows[0].Rollouts = nil }, "B could not be judged"},
		{"unsupported", func(s *Summary) { s.Scenarios[0].Rows[0].Unsupported = "no netem" }, "B: unsupported: no netem"},
		{"another row", func(s *Summary) { s.Scenarios[0].Rows[0].Name = "x" }, "only one report has it"},
	} {
		other := sample()
		other.Scenarios[0].Rows = other.Scenarios[0].Rows[1:2]
		for _, s := range []*Summary{&base, &other} { // as the model has it, that it is chance
			s.Scenarios[0].Rows[0].Predicted.Var = 2 * 29 * 29
		}
		tc.mutate(&other)
		got := Compare(base, other)[0].Differs
		if tc.want == "" && len(got) > 0 || tc.want != "" && !strings.Contains(strings.Join(got, "; "), tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		var out bytes.Buffer
		c := NewComparison(base, other, [2]string{"before", "after"})
		err := c.Table(&out, Form{})
		code := 0
		switch {
		case tc.name == "nothing ran" || tc.name == "unsupported":
			code = 2
		case tc.want != "":
			code = 1
		}
		if err != nil || c.ExitCode != code || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: exit code %d, want %d; %v:\n%s", tc.name, c.ExitCode, code, err, out.String())
		}
	}
}

// One burst of losses in one of two runs is no difference where the model has none: it may be or
// not be. Losses here and there are one.
func TestCompareWhereTheModelHasNoLoss(t *testing.T) {
	run := func(windows, lost int) Summary {
		s := sample()
		r := Row{Name: "kube-proxy nftables", Mode: Fallback, Wanted: 3, Predicted: &model.Prediction{Rollouts: 3}}
		for n := range 3 {
			v := rollout(n+1, 0)
			if n == 0 {
				v.Lost, v.Classes[verdict.RespTimeout], v.Causes[verdict.CauseNodeDrop] = lost, lost, lost
				for range windows {
					each := lost / windows
					v.NodeWindows = append(v.NodeWindows, verdict.Window{Lost: each, Classes: map[verdict.Class]int{verdict.RespTimeout: each}, Causes: map[verdict.Cause]int{verdict.CauseNodeDrop: each}})
				}
			}
			r.Rollouts = append(r.Rollouts, v)
		}
		s.Scenarios[0].Rows = []Row{r}
		return s
	}
	if got := Compare(run(0, 0), run(1, 40))[0].Differs; len(got) > 0 {
		t.Errorf("one window of 40: %q", got)
	}
	if got := Compare(run(0, 0), run(40, 40))[0].Differs; len(got) == 0 {
		t.Error("40 windows of one: no difference")
	}
}

// move has losses seen as another class.
func move(s *Summary, from, to verdict.Class) {
	for i := range s.Scenarios[0].Rows[0].Rollouts {
		v := &s.Scenarios[0].Rows[0].Rollouts[i]
		v.Classes = maps.Clone(v.Classes)
		v.Classes[to] += v.Classes[from]
		delete(v.Classes, from)
	}
}

// drawn is a run of three rollouts as chance has them: an ignore row whose losses depend on
// the phases of the checks, and a fallback row that loses a part of its requests.
func drawn(rng *rand.Rand, part float64) Summary {
	s := sample()
	in := model.Inputs{Rate: 100, Semantics: model.Ignore, Propagation: 60 * time.Millisecond, Delay: 6 * time.Second, Grace: 16 * time.Second,
		LB: model.LB{Interval: time.Second, Fall: 3, Rise: 1}}
	p, err := model.SingleReplica(in, 3)
	if err != nil {
		panic(err)
	}
	ignore := Row{Name: "ignore", Own: true, Mode: Ignore, Wanted: 3, Predicted: &p}
	fallback := Row{Name: "fallback", Own: true, Mode: Fallback, Judged: true, Wanted: 3}
	for n := range 3 {
		u, w := rng.Float64(), rng.Float64()
		lost := int(100*w + 50*(2+u-w))
		noisy := func(v verdict.Rollout) verdict.Rollout {
			v.Latency.P50, v.Latency.P99 = v.Latency.P50*math.Exp(rng.NormFloat64()/5), v.Latency.P99*math.Exp(rng.NormFloat64()/2)
			return v
		}
		v := noisy(rollout(n+1, lost))
		v.LongestWindow = 2 + u
		ignore.Rollouts = append(ignore.Rollouts, v)
		lost = 0
		for range 2000 {
			if rng.Float64() < part {
				lost++
			}
		}
		fallback.Rollouts = append(fallback.Rollouts, noisy(rollout(n+1, lost)))
	}
	s.Scenarios[0].Rows = []Row{ignore, fallback}
	return s
}

func named(all []Summary) (names []string) {
	for i := range all {
		names = append(names, fmt.Sprintf("run %d", i+1))
	}
	return names
}

// TestComparison: a regression is named as one, in every rendering, and 80 columns hold what
// changed.
func TestComparison(t *testing.T) {
	a, b := sample(), sample()
	for i := range b.Scenarios[0].Rows[0].Rollouts {
		b.Scenarios[0].Rows[0].Rollouts[i].Lost = 40
	}
	c := NewComparison(a, b, [2]string{"before", "after"})
	if c.ExitCode != 1 || c.Conclusion != "DIFFER: plumb-nftables fallback" || !strings.HasPrefix(c.Rows[0].Says, "Regression in plumb-nftables fallback: ") ||
		!strings.Contains(c.Rows[0].Says, "lost 0, then 40 per rollout") || c.Rows[1].Word != "agree" || c.Rows[3].Word != "unjudged" {
		t.Errorf("%+v", c)
	}
	if back := NewComparison(b, a, [2]string{"before", "after"}); !strings.HasPrefix(back.Rows[0].Says, "Improvement in ") {
		t.Errorf("the other way round: %s", back.Rows[0].Says)
	}
	var out bytes.Buffer
	if err := c.Table(&out, Form{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d: %s", n, line)
		}
	}
	golden(t, "comparison.txt", out.Bytes())
	golden(t, "comparison.md", c.Markdown())
	page, err := NewComparison(hostile(), hostile(), [2]string{rendertest.Worse, rendertest.Worse}).HTML()
	if err != nil {
		t.Fatal(err)
	}
	rendertest.SelfContained(t, page, 8)
}

// Twenty runs of one thing, all 190 pairs at an error of 5 % for all of them: of 12 such
// families at most a few may hold a difference. One of them that loses 2 % is named.
func TestCompareAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	wrong := 0
	for range 12 {
		var all []Summary
		for range 20 {
			all = append(all, drawn(rng, 0))
		}
		var out bytes.Buffer
		code, err := CompareAll(&out, all, named(all))
		if err != nil {
			t.Fatal(err)
		}
		if code != 0 {
			wrong++
			t.Log(out.String())
		}
		if !strings.Contains(out.String(), "of 190 pairs of reports differ, at an error of 5 %") || !strings.Contains(out.String(), "ignore: smallest differences") {
			t.Fatal(out.String())
		}
	}
	if wrong > 3 { // of 12 at 5 %: more than 3 twice in a thousand times
		t.Errorf("%d of 12 families of runs of one thing are called different", wrong)
	}
	all := []Summary{drawn(rng, 0), drawn(rng, 0), drawn(rng, 0.02)}
	var out bytes.Buffer
	if code, err := CompareAll(&out, all, named(all)); err != nil || code != 1 || !strings.Contains(out.String(), "run 1 and run 3 DIFFER: fallback: one lost more than its budget: 0, then ") ||
		!strings.Contains(out.String(), "2 of 3 pairs") {
		t.Errorf("2 %% lost: %v\n%s", err, out.String())
	}
	gone := drawn(rng, 0)
	gone.Scenarios[0].Rows[1].Rollouts = nil
	out.Reset()
	if code, err := CompareAll(&out, []Summary{all[0], all[1], gone}, named(all)); err != nil || code != 2 || !strings.Contains(out.String(), "run 1 and run 3 could not be compared: fallback: B could not be judged") {
		t.Errorf("one that was not judged: %d, %v\n%s", code, err, out.String())
	}
}
