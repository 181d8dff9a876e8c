package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/plumbline/plumbline/suites/report/render"
)

// facts are the environment, in every rendering. Their text is clean.
func facts(r Report) []render.Fact {
	i, e := r.Implementation, r.Environment
	out := []render.Fact{
		{"implementation", render.Joined(", ", implementation(i), i.Organization, i.URL)},
		{"configuration", i.ConfigDigest},
		{"images", strings.Join(i.Images, ", ")},
		{"contact", strings.Join(i.Contact, ", ")},
		{"harness", harness(r.Harness)},
		{"run", render.Joined(", ", r.Date.UTC().Format(time.RFC3339), "took "+short(r.Duration), fmt.Sprintf("seed %d", r.Seed))},
		{"phases", phasesText(r.Phases)},
		{"behaviours", extent(r)},
		{"command", r.Command},
		{"cluster", render.Joined(", ", e.Cluster, render.Prefixed("Kubernetes ", e.Kubernetes), render.Prefixed("control plane ", e.ControlPlane), some(e.Nodes, "node"), some(e.Zones, "zone"), render.Prefixed("IP family ", e.IPFamily), render.Prefixed("CNI ", e.CNI))},
		{"node image", e.NodeImage},
		{"host", render.Joined(", ", e.OS, render.Prefixed("kernel ", e.Kernel), some(e.CPUs, "CPU"))},
		{"may be late", render.Prefixed("by ", within(e.FollowWithin))},
		{"timeouts", e.Timeouts},
		{"lacks", e.Lacks},
		{"beside", strings.Join(e.Beside, "; ")},
		{"balancer", lbText(e.LB)},
		{"control", noiseText(e.Noise)},
		{"ended early", r.Error},
	}
	kept := out[:0]
	for _, f := range out {
		if text := render.Line(f.Text()); text != "" {
			kept = append(kept, render.Fact{f.Name(), text})
		}
	}
	return kept
}

// within is a duration that somebody has said.
func within(d Duration) string {
	if d == 0 {
		return ""
	}
	return short(d) + " after a change"
}

// extent is how much of the catalogue the run was about, if anybody has said so.
func extent(r Report) string {
	switch {
	case r.Of == 0:
		return ""
	case whole(r):
		return fmt.Sprintf("all %d of the catalogue", r.Of)
	}
	return chosen(r)
}

// harness names the commit where the version does not.
func harness(h Harness) string {
	if strings.Contains(h.Version, h.Commit) {
		return h.Version
	}
	return render.Joined(" ", h.Version, h.Commit)
}

func implementation(i Implementation) string {
	return render.Joined(" ", i.Project, render.Parens(i.Mode), i.Version)
}

func lbText(l *LB) string {
	if l == nil {
		return ""
	}
	t := render.Joined(", ", l.Kind, render.Prefixed("profile ", l.Profile), render.Prefixed("ipMode ", l.IPMode))
	if l.Interval > 0 {
		timeout := ""
		if l.Timeout > 0 { // HAProxy's timeout check; without one, the interval bounds the whole check
			timeout = fmt.Sprintf(" timeout %s,", l.Timeout)
		}
		t += fmt.Sprintf(", check every %s,%s fall %d, rise %d", l.Interval, timeout, l.Fall, l.Rise)
	}
	return t + render.Prefixed(", path ", l.Path)
}

func noiseText(n *Noise) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%d of %s without the dataplane failed, p99 %s", n.Failures, render.Plural(n.Attempts, "attempt"), time.Duration(n.P99).Round(time.Microsecond))
}

// countColumns are the headings of a line of statistics.
func countColumns() []string {
	return []string{"PASSED", "FAILED", "SKIPPED", "UNSUPPORTED", "INCONCLUSIVE"}
}

func countCells(s Statistics) []string {
	var out []string
	for _, n := range []int{s.Passed, s.Failed, s.Skipped, s.Unsupported, s.Inconclusive} {
		out = append(out, fmt.Sprint(n))
	}
	return out
}

// profileTable has its headings first and all tests together last.
func profileTable(r Report) [][]string {
	out := [][]string{append([]string{"PROFILE", "RESULT"}, countColumns()...)}
	for _, p := range r.Profiles {
		out = append(out, append([]string{render.Line(p.Name), string(p.Result)}, countCells(p.Statistics)...))
	}
	return append(out, append([]string{"all", string(r.Conclusion)}, countCells(count(r.Tests, func(Test) bool { return true }))...))
}

// word is a test's result for people: a failure of a MUST stands out.
func word(t Test) string {
	if t.Result == Fail && t.binding() == Must {
		return "FAIL"
	}
	return string(t.Result)
}

// reason is why a test did not pass.
func reason(t Test) string {
	if s := render.Line(t.Reason); s != "" || t.Result == Pass {
		return s
	}
	return "no reason was given"
}

// measured is what a test counted and timed.
func measured(t Test) string {
	delay := ""
	if t.Delay > 0 {
		delay = "propagation up to " + short(t.Delay)
	}
	parts := []string{render.Joined(", ", some(t.Attempts, "attempt"), delay, render.Line(strings.Join(t.Said, "; ")))}
	for _, s := range t.Streams {
		parts = append(parts, streamText(s))
	}
	return render.Joined("; ", parts...)
}

func short(d Duration) string { return time.Duration(d).Round(time.Millisecond).String() }

// problems are the tests that failed or are inconclusive, what binds most first.
func problems(tests []Test) []Test {
	var out []Test
	for _, want := range []struct {
		must   bool
		result Result
	}{{true, Fail}, {true, Inconclusive}, {false, Fail}, {false, Inconclusive}} {
		for _, t := range tests {
			if t.Result == want.result && (t.binding() == Must) == want.must {
				out = append(out, t)
			}
		}
	}
	return out
}

// legend says how to read the results.
func legend() []string {
	return []string{
		"FAIL: a MUST does not hold. fail: a SHOULD or MAY does not hold; it is reported and does not make the dataplane non-conformant.",
		"documented: the dataplane is known to differ there, and why; a failure that is documented is a failure.",
		"unsupported: the dataplane declares that it lacks a feature which the test needs; a MUST that needs one of which nobody has declared anything counts as a SHOULD here, and its profile does not hold. skip: the cluster lacks what the test needs, or is older than it; a skip is never a pass.",
		"inconclusive: the harness could not tell, for instance because a connection that does not use the dataplane failed as well.",
		"conformant: every MUST of the catalogue passed, is unsupported as declared, or could not be observed on this cluster, which is said, and all of Core passed. partial: so did those that were chosen and seen, but that is not the whole catalogue, or not all of Core; of the others nothing is known. not judged: some MUST was inconclusive, none of Core was run, or the run did not get to its end.",
	}
}

func some(n int, what string) string {
	if n == 0 {
		return ""
	}
	return render.Plural(n, what)
}
