package report

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin" // binomial coefficients
	"gonum.org/v1/gonum/stat/distuv" // quantiles of the normal and of Student's distribution

	"github.com/plumbline/plumbline/suites/verdict"
)

// FamilyError is the chance that anything at all is called a difference among runs of one
// thing: it is divided by the number of tests that are made (Bonferroni).
const FamilyError = 0.05

// figure is one number of a run's rollouts, which two runs are compared by.
type figure struct {
	name, unit string
	of         func(verdict.Rollout) float64
	in         func(verdict.Window) int // of what is counted: how much of it a window holds
	// spread is how a rollout's figure varies without any cause.
	spread spread
	floor  float64 // what is less than this is never called a difference: it changes between runs with what else a host does
}

type spread int

const (
	counted  spread = iota // of requests: as the model says, at least as counts vary
	measured               // as it varied from rollout to rollout within all runs that are compared
)

// test is what became of comparing one figure.
type test struct {
	figure
	a, b  float64 // means over the rollouts
	least float64 // smallest difference that would have been called one; +Inf: none, with so few rollouts
}

func (t test) differs() bool { return math.Abs(t.a-t.b) > t.least }

// chance is what chance may do in all that is compared.
type chance struct {
	alpha float64            // error of one test
	noise map[string]scatter // of what is measured, by figure
}

// scatter is a variance from rollout to rollout of one run, and how well it is known.
type scatter struct {
	squares float64
	degrees int
}

// newChance is of all these pairs together.
func newChance(pairs []Pair) chance {
	c := chance{alpha: FamilyError / float64(max(1, tests(pairs))), noise: map[string]scatter{}}
	seen := map[*Row]bool{}
	for _, p := range pairs {
		for _, r := range []*Row{p.A, p.B} {
			if r == nil || seen[r] || len(r.Rollouts) == 0 {
				continue
			}
			seen[r] = true
			for _, f := range latencies() {
				n := c.noise[f.name]
				n.squares, n.degrees = n.squares+squares(values(f, *r)), n.degrees+len(r.Rollouts)-1
				c.noise[f.name] = n
			}
		}
	}
	return c
}

// compareFigure holds a figure of two rows against each other.
func (c chance) compareFigure(f figure, a, b Row) test {
	x, y := values(f, a), values(f, b)
	t := test{figure: f, a: stat.Mean(x, nil), b: stat.Mean(y, nil), least: math.Inf(1)}
	tail, size := 1-c.alpha/2, 1/float64(len(x))+1/float64(len(y))
	switch f.spread {
	case counted:
		// What is common to both runs, if nothing differs: the largest of three variances of one
		// rollout. Losses come in windows, so a count varies by more than its root.
		pooled := (floats.Sum(x) + floats.Sum(y)) / float64(len(x)+len(y))
		v := max(pooled, modelVar(f, a, pooled), modelVar(f, b, pooled), windowed(f, a, b))
		z := distuv.UnitNormal.Quantile(tail)
		if t.least = z * math.Sqrt(v*size); v == 0 { // none at all: d per rollout vary by d / 2
			t.least = z * z * size / 2
		}
	case measured:
		if n := c.noise[f.name]; n.degrees > 0 {
			t.least = max(f.floor, distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n.degrees)}.Quantile(tail)*math.Sqrt(n.squares/float64(n.degrees)*size))
		}
	}
	return t
}

// modelVar is the model's variance of one rollout's loss, for the part of it that f counts.
// What is cut off at a fixed time, as by a pod that is gone, may carry all of the variance
// though it is a small part of the loss; so a fifth of it is given all.
func modelVar(f figure, r Row, mean float64) float64 {
	if r.Predicted == nil || r.Predicted.Rollouts == 0 || r.Lost() == 0 || f.unit != lostUnit {
		return 0
	}
	part := mean * float64(len(r.Rollouts)) / float64(r.Lost())
	return r.Predicted.Var / float64(r.Predicted.Rollouts) * min(1, 5*part)
}

// windowed is the variance of counts that come in windows, each of which may be or not be
// (compound Poisson: the sum of squares).
func windowed(f figure, a, b Row) float64 {
	if f.unit == lostUnit && foreseen(a) && foreseen(b) {
		return 0 // the model knows better
	}
	sum, n := 0.0, 0
	for _, r := range []Row{a, b} {
		for _, v := range r.Rollouts {
			n++
			for _, w := range v.NodeWindows {
				sum += float64(f.in(w)) * float64(f.in(w))
			}
		}
	}
	return sum / float64(max(1, n))
}

// foreseen: the model says by how much the loss varies.
func foreseen(r Row) bool { return r.Predicted != nil && r.Predicted.Var > 0 }

func values(f figure, r Row) []float64 {
	out := make([]float64, len(r.Rollouts))
	for i, v := range r.Rollouts {
		out[i] = f.of(v)
	}
	return out
}

func squares(v []float64) float64 {
	m, s := stat.Mean(v, nil), 0.0
	for _, x := range v {
		s += (x - m) * (x - m)
	}
	return s
}

const (
	lostUnit = "lost per rollout"
	slowUnit = "slow per rollout"
)

// figures are what two rows are compared by: losses in all, by class and by cause, slow
// answers likewise, and how long answers took.
func figures(a, b Row) []figure {
	all := []figure{
		{name: "lost", unit: lostUnit, of: func(v verdict.Rollout) float64 { return float64(v.Lost) }, in: func(w verdict.Window) int { return w.Lost }},
		{name: "slow", unit: slowUnit, of: func(v verdict.Rollout) float64 { return float64(v.Slow - v.SlowCauses[verdict.CauseHarness]) }, in: func(w verdict.Window) int { return w.Slow }},
	}
	for _, name := range union(a.LostClasses(), b.LostClasses()) {
		c := verdict.Class(name)
		all = append(all, figure{name: "lost as " + name, unit: lostUnit, of: func(v verdict.Rollout) float64 { return float64(v.Classes[c]) }, in: func(w verdict.Window) int { return w.Classes[c] }})
	}
	for _, name := range union(a.Causes(), b.Causes()) {
		c := verdict.Cause(name)
		all = append(all, figure{name: "lost for " + name, unit: lostUnit, of: func(v verdict.Rollout) float64 { return float64(v.Causes[c]) }, in: func(w verdict.Window) int { return w.Causes[c] }})
	}
	for _, name := range union(a.SlowCauses(), b.SlowCauses()) {
		c := verdict.Cause(name)
		if c == verdict.CauseHarness { // what else a host does comes and goes
			continue
		}
		all = append(all, figure{name: "slow for " + name, unit: slowUnit, of: func(v verdict.Rollout) float64 { return float64(v.SlowCauses[c]) }, in: func(w verdict.Window) int { return w.Causes[c] }})
	}
	return append(all, latencies()...)
}

func latencies() []figure {
	log := func(of func(verdict.Quantiles) float64) func(verdict.Rollout) float64 {
		return func(v verdict.Rollout) float64 { return math.Log(max(of(v.Latency), 1e-6)) }
	}
	return []figure{
		{name: "latency p50", unit: timesUnit, of: log(func(q verdict.Quantiles) float64 { return q.P50 }), spread: measured, floor: math.Log(2)},
		{name: "latency p99", unit: timesUnit, of: log(func(q verdict.Quantiles) float64 { return q.P99 }), spread: measured, floor: math.Log(5)},
	}
}

// timesUnit: the figure is a logarithm, and a difference of it a factor.
const timesUnit = "times"

func union(a, b []Count) []string {
	var names []string
	seen := map[string]bool{}
	for _, c := range append(append([]Count{}, a...), b...) {
		if !seen[c.Name] {
			seen[c.Name] = true
			names = append(names, c.Name)
		}
	}
	return names
}

// fewerCount is the probability that two runs of one thing have rollouts that did not count
// in such different parts (Fisher's exact test, both sides).
func fewerCount(a, b Row) float64 {
	x, n, k := len(a.Invalid), len(a.Invalid)+len(a.Rollouts), len(a.Invalid)+len(b.Invalid)
	all := n + len(b.Invalid) + len(b.Rollouts)
	log := func(i int) float64 {
		l := func(n, k int) float64 { return combin.LogGeneralizedBinomial(float64(n), float64(k)) }
		return l(k, i) + l(all-k, n-i) - l(all, n)
	}
	p, here := 0.0, log(x)
	for i := max(0, n-(all-k)); i <= min(n, k); i++ {
		if v := log(i); v <= here+1e-9 {
			p += math.Exp(v)
		}
	}
	return p
}
