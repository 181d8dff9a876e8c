package report

import (
	"fmt"
	"math"
	"math/cmplx"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// phases are when in their intervals the balancer's checks saw the changes of each rollout:
// of the old node's health U = L - (F-1) I_f, of the new one's U' = L_up - (R-1) I_f.
func phases(r Row, lb LB) (u, up []float64) {
	fast := lb.Fast
	if fast == 0 {
		fast = lb.Interval
	}
	for _, v := range r.Rollouts {
		if l := v.Observed.Removal; l != nil {
			u = append(u, *l-float64(lb.Fall-1)*fast.Seconds())
		}
		if l := v.Observed.Admission; l != nil {
			up = append(up, *l-float64(lb.Rise-1)*fast.Seconds())
		}
	}
	return u, up
}

// alike is the probability that phases which are drawn lie as close to each other as these
// (Rayleigh's test).
func alike(phases []float64, interval float64) float64 {
	sum := complex(0, 0)
	for _, u := range phases {
		sum += cmplx.Exp(complex(0, 2*math.Pi*u/interval))
	}
	n := float64(len(phases))
	return math.Exp(-cmplx.Abs(sum) * cmplx.Abs(sum) / n)
}

// fewPhases is of how many something can be told: of fewer, even equal ones may be chance.
const fewPhases = 5

// phaseNotes print the phases, which the model takes to be drawn anew in each rollout, and
// say if they were not.
func phaseNotes(r Row, lb LB) []string {
	u, up := phases(r, lb)
	if len(u) < 2 || lb.Interval == 0 {
		return nil
	}
	down := lb.Down
	if down == 0 {
		down = lb.Interval
	}
	line := fmt.Sprintf("%s: phases of the checks, in seconds: U %s; U' %s", render.Text(r.Name), join(u), join(up))
	for _, p := range []struct {
		name     string
		phases   []float64
		interval float64
	}{{"U", u, lb.Interval.Seconds()}, {"U'", up, down.Seconds()}} {
		if len(p.phases) >= fewPhases && alike(p.phases, p.interval) < 0.01 {
			line += fmt.Sprintf("; %s are alike by more than chance: these rollouts are fewer draws than they count, and their sum may lie outside of the band", p.name)
		}
	}
	if apart := differences(u, up); down == lb.Interval && len(apart) >= fewPhases && alike(apart, lb.Interval.Seconds()) < 0.01 {
		line += "; U' and U are tied, as one balancer's checks are: the band is too wide if they are half an interval apart, and too narrow if in step"
	}
	return []string{line}
}

// differences of phases of the same rollouts; none where one of them is missing.
func differences(u, up []float64) []float64 {
	if len(u) != len(up) {
		return nil
	}
	out := make([]float64, len(u))
	for i := range u {
		out[i] = up[i] - u[i]
	}
	return out
}

func join(v []float64) string {
	parts := make([]string, len(v))
	for i, x := range v {
		parts[i] = fmt.Sprintf("%.2f", x)
	}
	return strings.Join(parts, " ")
}
