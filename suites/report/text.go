package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

// columns are the headings of the table, in every rendering.
func columns() []string {
	return []string{
		"DATAPLANE", "ROLLOUTS", "SENT", "LOST", "PER ROLLOUT", "WINDOW", "OUTAGE", "SLOW",
		"MODEL [99.9 %]", "RECONSTRUCTED", "RESIDUAL", "VERDICT", "CLASSES",
	}
}

// cells are one row under columns.
func cells(r Row, s Settings) []string {
	least, most := r.LostRange()
	rollouts := fmt.Sprint(len(r.Rollouts))
	if n := len(r.Invalid); n > 0 {
		rollouts += fmt.Sprintf(" (+%d invalid)", n)
	}
	if len(r.Rollouts) == 0 {
		return []string{render.Text(r.Name), rollouts, "-", "-", "-", "-", "-", "-", "-", "-", "-", string(r.Judge(s)), "-"}
	}
	return []string{
		render.Text(r.Name), rollouts, fmt.Sprint(r.Sent()), fmt.Sprint(r.Lost()),
		span(least, most), secs(r.LongestWindow()), secs(r.LongestOutage()), fmt.Sprint(r.Slow()),
		modelCell(r), reconstructedCell(r), residualCell(r), string(r.Judge(s)), list(r.LostClasses()),
	}
}

func span(a, b int) string {
	if a == b {
		return fmt.Sprint(a)
	}
	return fmt.Sprintf("%d-%d", a, b)
}

func secs(s float64) string {
	if s == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f s", s)
}

func modelCell(r Row) string {
	p := r.Predicted
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%s [%s-%s, width %s]", num(p.Mean), num(p.Band999.Low), num(p.Band999.High), num(p.Band999.Width()))
}

func reconstructedCell(r Row) string {
	lost, _, _, ok, _ := r.Reconstructed()
	if !ok {
		return "-"
	}
	return num(lost)
}

func residualCell(r Row) string {
	lost, worst, unexplained, ok, within := r.Reconstructed()
	if !ok {
		return "-"
	}
	cell := signed(float64(r.Lost()) - lost)
	if len(r.Rollouts) > 1 {
		cell += fmt.Sprintf(" (worst %s)", signed(worst))
	}
	if !within {
		cell += fmt.Sprintf(" ! %s unexplained", num(unexplained))
	}
	return cell
}

func num(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

func signed(f float64) string {
	if math.Abs(f) < 0.05 {
		return "0"
	}
	return strings.TrimSuffix(fmt.Sprintf("%+.1f", f), ".0")
}

func list(counts []Count) string {
	if len(counts) == 0 {
		return "-"
	}
	parts := make([]string, len(counts))
	for i, c := range counts {
		parts[i] = fmt.Sprintf("%s %d", c.Name, c.N)
	}
	return strings.Join(parts, ", ")
}

func facts(s Summary) []render.Fact {
	e := s.Environment
	host := []string{}
	for _, p := range []struct {
		is   bool
		text string
	}{
		{e.OS != "", e.OS},
		{e.Kernel != "", "kernel " + e.Kernel},
		{true, render.Plural(e.CPUs, "CPU")},
		{e.MemoryMiB > 0, fmt.Sprintf("%d MiB", e.MemoryMiB)},
		{e.UsedMiB > 0, fmt.Sprintf("%d MiB of them used by the cluster", e.UsedMiB)},
	} {
		if p.is {
			host = append(host, render.Text(p.text))
		}
	}
	out := []render.Fact{
		{"scenario", render.Text(s.Scenario) + render.Prefixed(": ", render.Text(s.Title))},
		{"host", strings.Join(host, ", ")},
		{"cluster", clusterText(e)},
		{"balancer", lbText(s.LB)},
		{"probe", fmt.Sprintf("%g new connections/s, answer within %s (recorded up to %s), seed %d; a SYN that is not answered is sent again after %s",
			s.Settings.Rate, s.Settings.Timeout, s.Settings.Deadline, s.Settings.Seed, resends(s.Settings))},
		{"workload", workloadText(s.Settings)},
	}
	if s.Settings.Timeouts != "" {
		out = append(out, render.Fact{"timeouts", render.Text(s.Settings.Timeouts)})
	}
	if e.Lacks != "" {
		out = append(out, render.Fact{"lacks", render.Text(e.Lacks)})
	}
	if e.Plumbline != "" {
		out = append(out, render.Fact{"plumbline", render.Text(e.Plumbline)})
	}
	return out
}

// resends are those SYNs that go out before an attempt is given up.
func resends(s Settings) string {
	var parts []string
	for _, d := range s.SYN.Resends() {
		if d < s.Deadline {
			parts = append(parts, d.String())
		}
	}
	return strings.Join(parts, ", ")
}

func clusterText(e Environment) string {
	t := "Kubernetes " + render.Text(e.Kubernetes)
	if e.Cluster != "" {
		t = render.Text(e.Cluster) + ", " + t
	}
	if e.ControlPlane != "" {
		t += " (control plane: " + render.Text(e.ControlPlane) + ")"
	}
	if e.Nodes > 0 {
		t += ", " + render.Plural(e.Nodes, "node")
	}
	return t + render.Prefixed(", ", render.Text(e.IPFamily)) + render.Prefixed(", ", render.Text(e.NodeImage))
}

func lbText(l LB) string {
	t := fmt.Sprintf("%s%s, profile %s: check%s every %s", render.Text(l.Kind), render.Prefixed(", version ", render.Text(l.Version)), render.Text(l.Profile), render.Prefixed(" of ", render.Text(l.Path)), l.Interval)
	for _, p := range []struct {
		name string
		d    time.Duration
	}{{"fast", l.Fast}, {"down", l.Down}} {
		if p.d > 0 && p.d != l.Interval {
			t += fmt.Sprintf(" (%s %s)", p.name, p.d)
		}
	}
	t += fmt.Sprintf(", fall %d, rise %d, connect %s", l.Fall, l.Rise, l.Connect)
	if l.Client > 0 || l.Server > 0 {
		t += fmt.Sprintf(", client %s, server %s", l.Client, l.Server)
	}
	t += ", " + retries(l.Retries)
	if l.Redispatch {
		t += ", redispatch"
	} else {
		t += ", no redispatch"
	}
	return t + render.Prefixed(", ", render.Text(l.Balance))
}

func retries(n int) string {
	if n == 1 {
		return "1 retry"
	}
	return fmt.Sprintf("%d retries", n)
}

func workloadText(s Settings) string {
	t := fmt.Sprintf("shutdown delay %s, grace %s", s.Delay, s.Grace)
	if s.PreStop > 0 {
		t += fmt.Sprintf(", preStop %s", s.PreStop)
	}
	if s.MinReady > 0 {
		t += fmt.Sprintf(", minReady %s", s.MinReady)
	}
	if s.Unready {
		t += ", unready on SIGTERM"
	}
	if s.Pods > 0 {
		t += fmt.Sprintf("; beside %s in %s", render.Plural(s.Pods, "pod"), render.Plural(s.Services, "Service"))
	}
	return t + fmt.Sprintf("; %s per row, budget %d lost", render.Plural(s.Rollouts, "rollout"), s.Budget)
}

const noPrediction = "the model gave no prediction: whether the harness sees every loss cannot be told"

// notes are what the table has no room for, one line each.
func notes(s Summary) []string {
	var out []string
	for _, r := range s.Rows {
		name := render.Text(r.Name)
		if r.Error != "" {
			out = append(out, name+": not run to its end: "+render.Line(r.Error))
		}
		if r.Unsupported != "" {
			out = append(out, name+": unsupported here: "+render.Line(r.Unsupported))
			continue
		}
		if len(r.Beside) > 0 {
			out = append(out, name+": measured beside another Service proxy, whose work this may be: "+render.Line(strings.Join(r.Beside, "; ")))
		}
		if c := r.Causes(); len(c) > 0 {
			out = append(out, name+": causes of the losses: "+causes(c))
		}
		if c := r.SlowCauses(); len(c) > 0 {
			out = append(out, name+": causes of the slow answers: "+causes(c))
		}
		out = append(out, modelNotes(r, s.Settings)...)
		out = append(out, phaseNotes(r, s.LB)...)
		for _, v := range r.Invalid {
			out = append(out, fmt.Sprintf("%s: rollout %d is not counted: %s%s", name, v.Number, render.Text(strings.Join(v.Reasons, "; ")), lostThere(v)))
		}
		for _, v := range r.Rollouts {
			for _, w := range v.Warnings {
				out = append(out, fmt.Sprintf("%s: rollout %d: %s", name, v.Number, render.Text(w)))
			}
		}
		if n := len(r.Rollouts); n < r.Wanted {
			out = append(out, fmt.Sprintf("%s: %d of %s could be judged", name, n, render.Plural(r.Wanted, "rollout")))
		}
		if r.unpredicted(s.Settings) {
			out = append(out, name+": "+noPrediction)
		}
		if r.Judge(s.Settings) == Blind {
			out = append(out, fmt.Sprintf("%s: lost %d, and no phase of the checks loses that few: the harness does not see what it should", name, r.Lost()))
		}
		if r.Judge(s.Settings) == Excess {
			out = append(out, fmt.Sprintf("%s: lost %d, and no phase of the checks loses that many: something beside terminating endpoints was lost", name, r.Lost()))
		}
	}
	if p := runProblem(s); p != "" {
		out = append(out, p)
	}
	return out
}

// lostThere is what a rollout that does not count lost.
func lostThere(v verdict.Rollout) string {
	switch {
	case v.Lost == 0:
		return ""
	case v.LostSound == 0:
		return fmt.Sprintf("; of %d it lost %d", v.Sent, v.Lost)
	}
	return fmt.Sprintf("; of %d it lost %d, %d of them at moments at which the harness was sound: these count", v.Sent, v.Lost, v.LostSound)
}

// causes is a list of causes, each with the hop it lies at.
func causes(counts []Count) string {
	parts := make([]string, len(counts))
	for i, c := range counts {
		parts[i] = fmt.Sprintf("%s %d", c.Name, c.N)
		if hop := verdict.Cause(c.Name).Hop(); hop != verdict.HopUnknown {
			parts[i] += fmt.Sprintf(" (at the %s)", hop)
		}
	}
	return strings.Join(parts, ", ")
}

func modelNotes(r Row, s Settings) []string {
	p := r.Predicted
	if p == nil {
		return nil
	}
	var out []string
	if p.Note != "" {
		out = append(out, render.Text(r.Name)+": model: "+render.Text(p.Note))
	}
	if have := (s.PreStop + s.Delay).Seconds(); r.Mode == Fallback && have < p.SafeDelay {
		out = append(out, fmt.Sprintf("%s: model: a shutdown delay of %s s is too short for these checks, the shortest that loses nothing is %s s",
			render.Text(r.Name), num(have), num(p.SafeDelay)))
	}
	return out
}

// legend says how to read the table.
func legend() []string {
	return []string{
		"LOST: no complete answer in time. SLOW: answered, after a resent SYN, a redial or 200 ms and more; not lost.",
		"WINDOW: the longest stretch of losses and slow answers on one node. OUTAGE: the longest time without any prompt answer.",
		"MODEL: expected beforehand from the settings, with its 99.9 % band. RECONSTRUCTED: from the recorded states of balancer and nodes; it vouches for the books, and sees neither losses after the handshake nor those of one source. RESIDUAL: lost minus that; ! = node by node and second by second more than max(3, 3 %) remain, lost and slow, in some rollout.",
		"VERDICT: pass/FAIL own dataplane with fallback, another that declares it, or one that is to be judged: any loss, or more than 1 in 1000 of a rollout slow for what may be its doing · info informs only · blind/EXCESS fewer/more losses than possible · invalid the harness could not judge.",
	}
}
