package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

// columns are the headings of the table, in every rendering.
func columns() []string {
	return []string{
		"VERDICT", "DATAPLANE", "ROLLOUTS", "SENT", "LOST", "PER ROLLOUT", "WINDOW", "OUTAGE", "SLOW",
		"MODEL [99.9 %]", "RECONSTRUCTED", "RESIDUAL", "CLASSES",
	}
}

// cells are one row under columns.
func cells(r Row, sc Scenario) []string {
	least, most := r.LostRange()
	rollouts := fmt.Sprint(len(r.Rollouts))
	if n := len(r.Invalid); n > 0 {
		rollouts += fmt.Sprintf(" (+%d invalid)", n)
	}
	if len(r.Rollouts) == 0 {
		return append([]string{string(r.Judge(sc)), render.Text(r.Name), rollouts}, slices.Repeat([]string{"-"}, len(columns())-3)...)
	}
	return []string{
		string(r.Judge(sc)), render.Text(r.Name), rollouts, fmt.Sprint(r.Sent()), fmt.Sprint(r.Lost()),
		span(least, most), secs(r.LongestWindow()), secs(r.LongestOutage()), fmt.Sprint(r.Slow()),
		modelCell(r), reconstructedCell(r), residualCell(r), list(r.LostClasses()),
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

// alone is the only scenario of a run; nil: there are none, or several, each with a section of
// its own.
func alone(s Summary) *Scenario {
	if len(s.Scenarios) == 1 {
		return &s.Scenarios[0]
	}
	return nil
}

// names of the scenarios.
func names(s Summary) string {
	var all []string
	for _, sc := range s.Scenarios {
		all = append(all, render.Text(sc.Name))
	}
	return strings.Join(all, ", ")
}

// facts are what a run depends on; those of its scenario are among them if it is alone.
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
		{"host", strings.Join(host, ", ")},
		{"cluster", clusterText(e)},
		{"balancer", lbText(s.LB)},
	}
	if sc := alone(s); sc != nil {
		of := scenarioFacts(*sc)
		out = append(append(of[:1:1], out...), of[1:]...)
	}
	if e.Lacks != "" {
		out = append(out, render.Fact{"lacks", render.Text(e.Lacks)})
	}
	if s.Command != "" {
		out = append(out, render.Fact{"command", render.Text(s.Command)})
	}
	if e.Plumbline != "" {
		out = append(out, render.Fact{"plumbline", render.Text(e.Plumbline)})
	}
	return out
}

// scenarioFacts are what a scenario's rows have in common.
func scenarioFacts(sc Scenario) []render.Fact {
	set := sc.Settings
	out := []render.Fact{{"scenario", render.Text(sc.Name) + render.Prefixed(": ", render.Text(sc.Title))}}
	if sc.Says != "" {
		out = append(out, render.Fact{"promise", render.Text(sc.Says) + render.Prefixed(" Sources: ", render.Text(strings.Join(sc.Source, ", ")))})
	}
	for _, p := range sc.Promises {
		if len(p.But) > 0 {
			out = append(out, render.Fact{"excepted", exceptedText(p, set)})
		}
	}
	out = append(out,
		render.Fact{"probe", fmt.Sprintf("%g new connections/s, answer within %s (recorded up to %s), seed %d; a SYN that is not answered is sent again after %s",
			set.Rate, set.Timeout, set.Deadline, set.Seed, resends(set))},
		render.Fact{"workload", workloadText(set)})
	if of := sc.Latencies; of != (Latencies{}) {
		out = append(out, render.Fact{"model", fmt.Sprintf("takes for granted %s from a deletion or readiness to rules and health check port, %s from a new pod's readiness to the old one's deletion, %s to its SIGTERM",
			of.Propagation, of.Controller, of.Kubelet)})
	}
	if set.Timeouts != "" {
		out = append(out, render.Fact{"timeouts", render.Text(set.Timeouts)})
	}
	return out
}

// exceptedText is what a transition may lose.
func exceptedText(p Promise, s Settings) string {
	causes := make([]string, len(p.But))
	for i, c := range p.But {
		causes[i] = string(c)
	}
	text := strings.Join(causes, ", ") + " after a transition, until all has settled"
	if s.Recovery > 0 {
		text += fmt.Sprintf(", for %s at most", s.Recovery)
	}
	if slices.Contains(p.But, verdict.CauseRemembered) {
		text += "; what a node remembers, for as long as it does"
	}
	return text
}

// resends are those SYNs that go out before an attempt is given up.
func resends(s Settings) string {
	var parts []string
	for _, d := range s.SYN.Resends() {
		if d < time.Duration(s.Deadline) {
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
		d    Duration
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
	if s.Replicas > 1 {
		t = render.Plural(s.Replicas, "replica") + ", " + t
	}
	if s.Policy != "" {
		t = "externalTrafficPolicy " + render.Text(s.Policy) + ", " + t
	}
	if s.PreStop > 0 {
		t += fmt.Sprintf(", preStop %s", s.PreStop)
	}
	if s.MinReady > 0 {
		t += fmt.Sprintf(", minReady %s", s.MinReady)
	}
	if s.Unready {
		t += ", unready on SIGTERM"
	}
	if s.Hold > 0 {
		t += fmt.Sprintf("; the fault stays for %s", s.Hold)
	}
	if s.Pods > 0 {
		t += fmt.Sprintf("; beside %s in %s", render.Plural(s.Pods, "pod"), render.Plural(s.Services, "Service"))
	}
	return t + fmt.Sprintf("; %s per row, budget %d lost", render.Plural(s.Rollouts, "rollout"), s.Budget)
}

const noPrediction = "the model gave no prediction: whether the harness sees every loss cannot be told"

// notes are what the tables have no room for, one line each.
func notes(s Summary) []string {
	var out []string
	if sc := alone(s); sc != nil {
		out = scenarioNotes(*sc, s.LB)
	}
	if p := runProblem(s); p != "" {
		out = append(out, p)
	}
	return out
}

// scenarioNotes are those of one scenario's rows.
func scenarioNotes(sc Scenario, lb LB) []string {
	var out []string
	for _, r := range sc.Rows {
		out = append(out, rowNotes(r, sc, lb)...)
	}
	return out
}

func rowNotes(r Row, sc Scenario, lb LB) []string {
	var out []string
	name := render.Text(r.Name)
	if r.Error != "" {
		out = append(out, name+": not run to its end: "+render.Line(r.Error))
	}
	if r.Unsupported != "" {
		return append(out, name+": unsupported here: "+render.Line(r.Unsupported))
	}
	if len(r.Beside) > 0 {
		out = append(out, name+": measured beside another Service proxy, whose work this may be: "+render.Line(strings.Join(r.Beside, "; ")))
	}
	if c := r.Causes(); len(c) > 0 {
		out = append(out, name+": causes of the losses: "+causes(c))
	}
	if n := r.ownDoing(); n > 0 {
		out = append(out, fmt.Sprintf("%s: %d of %d losses are the scenario's own doing, and do not count", name, n, r.Lost()))
	}
	if c := r.SlowCauses(); len(c) > 0 {
		out = append(out, name+": causes of the slow answers: "+causes(c))
	}
	out = append(out, transitionNotes(r)...)
	out = append(out, modelNotes(r, sc.Settings)...)
	out = append(out, phaseNotes(r, lb)...)
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
	if r.unpredicted(sc) {
		out = append(out, name+": "+noPrediction)
	}
	if r.Judge(sc) == Blind {
		out = append(out, fmt.Sprintf("%s: lost %d, and no phase of the checks loses that few: the harness does not see what it should", name, r.Lost()))
	}
	if r.Judge(sc) == Excess {
		out = append(out, fmt.Sprintf("%s: lost %d, and no phase of the checks loses that many: something beside terminating endpoints was lost", name, r.Lost()))
	}
	return out
}

// transitionNotes say what each transition of a rollout lost where there is more to it than one
// deletion.
func transitionNotes(r Row) []string {
	var out []string
	for _, v := range r.Rollouts {
		for i, t := range v.Transitions {
			if len(v.Transitions) == 1 && t.Kind == record.KindPod && t.Stale == nil {
				continue
			}
			what := fmt.Sprintf("%s %s", t.Kind, render.Text(t.State))
			if t.Node != "" {
				what += " on " + render.Text(t.Node)
			}
			line := fmt.Sprintf("%s: rollout %d: %s", render.Text(r.Name), v.Number, what)
			if len(v.Transitions) > 1 {
				line += fmt.Sprintf(", %d of %d", i+1, len(v.Transitions))
			}
			line += fmt.Sprintf(", at %.2f s: lost %d, slow %d", t.At, t.Lost, t.Slow)
			if t.Outage > 0 {
				line += fmt.Sprintf(", no prompt answer for %.2f s", t.Outage)
			}
			for _, node := range slices.Sorted(maps.Keys(t.Stale)) {
				line += "; " + staleText(node, t.Stale[node])
			}
			out = append(out, line)
		}
	}
	return out
}

// staleText says how long a node knew of an old state.
func staleText(node string, s float64) string {
	if s == 0 {
		return render.Text(node) + " gave it no request after that"
	}
	return fmt.Sprintf("%s gave it requests for %.2f s more", render.Text(node), s)
}

// lostThere is what a rollout that does not count lost.
func lostThere(v verdict.Rollout) string {
	switch {
	case v.Lost == 0:
		return ""
	case v.LostSound == 0:
		return fmt.Sprintf("; of %d it lost %d", v.Sent, v.Lost)
	}
	text := fmt.Sprintf("; of %d it lost %d, %d of them at moments at which the harness was sound: these count", v.Sent, v.Lost, v.LostSound)
	if n := v.Excepted.LostSound; n > 0 {
		text += fmt.Sprintf(", but for %d that are the scenario's own doing", n)
	}
	return text
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
		"VERDICT: pass/FAIL a row that something is promised of (own dataplane with fallback, another that declares it, or one that is to be judged; of other scenarios as they say): any loss, or more than 1 in 1000 of a rollout slow for what may be its doing · info informs only · blind/EXCESS fewer/more losses than possible · invalid the harness could not judge.",
	}
}
