package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/plumbline/plumbline/suites/verdict"
)

// Exit codes of a run.
const (
	ExitPass    = 0 // what is promised holds
	ExitLost    = 1 // one of them lost more, or was slow beyond SlowPart; or an ignore row lost more than the model allows
	ExitUnknown = 2 // the harness could not judge, or does not see
)

// SlowPart is how much of what a rollout of a judged row answered may have come late where the
// dataplane may have done it: a packet that is sent again is a loss to who waits for it.
const SlowPart = 0.001

// ExitCode is the run's result. A loss that was seen outweighs everything: it counts if the
// harness vouches for the moment, in a rollout that counts or not. Baselines and ignore rows
// inform, unless they show that the harness cannot judge or is blind.
func ExitCode(s Summary) int {
	code := ExitPass
	if s.Error != "" || !s.tried() {
		code = ExitUnknown
	}
	for _, sc := range s.Scenarios {
		for _, r := range sc.Rows {
			switch r.Judge(sc) {
			case Fail, Excess:
				return ExitLost
			case Invalid, Blind:
				code = ExitUnknown
			}
		}
	}
	return code
}

// tried says whether any row of each scenario was: an unsupported one is not.
func (s Summary) tried() bool {
	return len(s.Scenarios) > 0 && !slices.ContainsFunc(s.Scenarios, func(sc Scenario) bool { return !sc.tried() })
}

func (sc Scenario) tried() bool {
	return slices.ContainsFunc(sc.Rows, func(r Row) bool { return r.Unsupported == "" })
}

// Judge is the row's verdict word.
func (r Row) Judge(sc Scenario) Word {
	judged := r.promise(sc) != nil
	switch {
	case r.Unsupported != "":
		return Unsupported
	case judged && (r.lostBeyond(sc) || r.isSlow()):
		return Fail
	case r.Error != "", len(r.Rollouts) == 0, len(r.Rollouts) < r.Wanted:
		return Invalid
	case len(r.Beside) > 0: // whose work it is cannot be told
		return Info
	case judged:
		return Pass
	case !r.probes(sc):
		return Info
	case r.Predicted == nil:
		return Invalid
	case r.blind():
		return Blind
	case r.excess():
		return Excess
	}
	return Info
}

// of says whether a row is among those of whom something is promised.
func (w Whose) of(r Row) bool {
	switch w {
	case OfFallback:
		return r.Judged
	case OfIgnore:
		return r.Own && r.Mode == Ignore
	case OfOwn:
		return r.Own || r.Judged
	case OfEvery:
		return true
	}
	return false
}

// promise is the one about losses that a row is held to; nil: none, it informs.
func (r Row) promise(sc Scenario) *Promise {
	for i, p := range sc.Promises {
		if !p.Band && p.Of.of(r) {
			return &sc.Promises[i]
		}
	}
	return nil
}

// probes reports whether the row shows that the harness sees losses: it must
// lose what the model says. Without a prediction it shows nothing.
func (r Row) probes(sc Scenario) bool {
	return slices.ContainsFunc(sc.Promises, func(p Promise) bool { return p.Band && p.Of.of(r) })
}

// unpredicted reports rollouts that count, and that no model vouches for.
func (r Row) unpredicted(sc Scenario) bool {
	return r.probes(sc) && r.Predicted == nil && len(r.Rollouts) > 0
}

// blind: fewer losses than any phase of the load balancer's checks explains. A
// band of another number of rollouts proves nothing and is taken as blindness.
func (r Row) blind() bool {
	p := r.Predicted
	return p.Rollouts != len(r.Rollouts) || float64(r.Lost()) < p.Band999.Low
}

// Complete fills in what follows from the rest: version, words, exit code.
func Complete(s Summary) Summary {
	s.APIVersion, s.Kind = APIVersion, Kind
	s.Scenarios = slices.Clone(s.Scenarios)
	for i, sc := range s.Scenarios {
		rows := slices.Clone(sc.Rows)
		for n, r := range rows {
			rows[n].Word, rows[n].Says = r.Judge(sc), r.says(sc)
			if r.Rollouts == nil {
				rows[n].Rollouts = []verdict.Rollout{} // [] in JSON, not null
			}
		}
		s.Scenarios[i].Rows = rows
		if sc.Promises == nil {
			s.Scenarios[i].Promises = []Promise{}
		}
	}
	s.ExitCode, s.Conclusion = ExitCode(s), conclusion(s)
	return s
}

// Lost is the number of lost requests in the counted rollouts.
func (r Row) Lost() int { return r.sum(func(v verdict.Rollout) int { return v.Lost }) }

// lostInvalid is the number of lost requests in rollouts that do not count, at moments for
// which the harness vouches all the same, but for the scenario's own doing.
func (r Row) lostInvalid() int {
	n := 0
	for _, v := range r.Invalid {
		n += v.LostSound - v.Excepted.LostSound
	}
	return n
}

// ownDoing is what was lost by the scenario's own doing, in rollouts that count.
func (r Row) ownDoing() int { return r.sum(func(v verdict.Rollout) int { return v.Excepted.Lost }) }

// counted is what the row lost that counts against a promise: in rollouts that count, and at
// sound moments of the others.
func (r Row) counted() int {
	n := r.Lost() - r.ownDoing()
	for _, v := range r.Invalid {
		n += v.LostSound - v.Excepted.LostSound
	}
	return n
}

// slowBeyond is the slow answers of the first rollout that has more than SlowPart allows,
// whether it counts or not: only those at sound moments are looked at.
func (r Row) slowBeyond() (slow, sent int, is bool) {
	for _, v := range slices.Concat(r.Rollouts, r.Invalid) {
		if n := v.SlowSound - v.Excepted.SlowSound; float64(n) > math.Ceil(SlowPart*float64(v.Sent)) {
			return n, v.Sent, true
		}
	}
	return 0, 0, false
}

func (r Row) isSlow() bool { _, _, is := r.slowBeyond(); return is }

// lostBeyond: more were lost than the row's promise and the budget allow.
func (r Row) lostBeyond(sc Scenario) bool {
	return r.promise(sc) != nil && r.counted() > sc.Settings.Budget
}

// excess: more losses than any phase of the checks explains. One balancer's phases are tied: at
// worst they are in step, which doubles the variance (package model).
func (r Row) excess() bool {
	p := r.Predicted
	slack := p.Slack * float64(p.Rollouts)
	worst := min(p.Mean+3.29*math.Sqrt(2*p.Var), p.Max) + slack
	return float64(r.Lost()) > max(p.Band999.High, math.Ceil(worst))
}

// Sent is the number of attempts in the counted rollouts.
func (r Row) Sent() int { return r.sum(func(v verdict.Rollout) int { return v.Sent }) }

// Slow is the number of slow successes in the counted rollouts.
func (r Row) Slow() int { return r.sum(func(v verdict.Rollout) int { return v.Slow }) }

func (r Row) sum(f func(verdict.Rollout) int) int {
	n := 0
	for _, v := range r.Rollouts {
		n += f(v)
	}
	return n
}

// LostRange is the least and the most lost requests of one counted rollout.
func (r Row) LostRange() (least, most int) {
	for i, v := range r.Rollouts {
		if i == 0 {
			least, most = v.Lost, v.Lost
		}
		least, most = min(least, v.Lost), max(most, v.Lost)
	}
	return least, most
}

// LongestWindow is the longest inner window of losses on one node, in seconds.
func (r Row) LongestWindow() float64 {
	return r.longest(func(v verdict.Rollout) float64 { return v.LongestWindow })
}

// LongestOutage is the longest time without any success, in seconds.
func (r Row) LongestOutage() float64 {
	return r.longest(func(v verdict.Rollout) float64 { return v.LongestOutage })
}

func (r Row) longest(f func(verdict.Rollout) float64) float64 {
	longest := 0.0
	for _, v := range r.Rollouts {
		longest = max(longest, f(v))
	}
	return longest
}

// Reconstructed sums the reconstructions; ok says that every rollout has one,
// within that what each leaves unexplained is little enough.
func (r Row) Reconstructed() (lost, worst, unexplained float64, ok, within bool) {
	ok, within = len(r.Rollouts) > 0, true
	for _, v := range r.Rollouts {
		rec := v.Reconstruction
		ok, within = ok && rec.Possible, within && rec.Within
		lost += rec.Lost
		unexplained += rec.Unexplained
		if max(rec.Residual, -rec.Residual) > max(worst, -worst) {
			worst = rec.Residual
		}
	}
	return lost, worst, unexplained, ok, within
}

// Count is a name with a number.
type Count struct {
	Name string
	N    int
}

// LostClasses are the classes of the lost requests, the most frequent first.
func (r Row) LostClasses() []Count {
	m := map[string]int{}
	for _, v := range r.Rollouts {
		for c, n := range v.Classes {
			if c.Lost() {
				m[string(c)] += n
			}
		}
	}
	return sorted(m)
}

// Causes are the causes of the lost requests, the most frequent first.
func (r Row) Causes() []Count {
	return r.causes(func(v verdict.Rollout) map[verdict.Cause]int { return v.Causes })
}

// SlowCauses are those of the slow answers.
func (r Row) SlowCauses() []Count {
	return r.causes(func(v verdict.Rollout) map[verdict.Cause]int { return v.SlowCauses })
}

func (r Row) causes(of func(verdict.Rollout) map[verdict.Cause]int) []Count {
	return causesIn(r.Rollouts, of)
}

func causesIn(list []verdict.Rollout, of func(verdict.Rollout) map[verdict.Cause]int) []Count {
	m := map[string]int{}
	for _, v := range list {
		for c, n := range of(v) {
			m[string(c)] += n
		}
	}
	return sorted(m)
}

func sorted(m map[string]int) []Count {
	var out []Count
	for name, n := range m {
		if n > 0 {
			out = append(out, Count{name, n})
		}
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name))
	})
	return out
}
