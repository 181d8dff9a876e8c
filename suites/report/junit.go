package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// junit has one case per row: FAIL and EXCESS are failures, blind and invalid are errors,
// unsupported is skipped.
// A run that ended early has one more, an error: rows that were never begun are
// in no summary, and those that were may all be good.
func junit(s Summary) ([]byte, error) {
	suite := render.NewSuite("plumbline "+names(s), s.Started, s.Finished.Sub(s.Started))
	for _, sc := range s.Scenarios {
		for _, r := range sc.Rows {
			suite.Add(junitCase(r, sc))
		}
	}
	if p := runProblem(s); p != "" {
		class := "plumbline"
		if sc := alone(s); sc != nil {
			class = classOf(*sc)
		}
		suite.Add(render.Case{Class: class, Name: "run", Error: &render.Problem{Message: p, Type: string(Invalid)}})
	}
	return suite.XML()
}

func classOf(sc Scenario) string { return "plumbline." + render.Text(sc.Name) }

func junitCase(r Row, sc Scenario) render.Case {
	word := r.Judge(sc)
	c := render.Case{Class: classOf(sc), Name: render.Text(r.Name)}
	var out []string
	names := columns()
	for i, cell := range cells(r, sc) {
		out = append(out, names[i]+": "+cell)
	}
	c.Out = strings.Join(out, "\n")
	p := &render.Problem{Message: problem(r, sc), Type: string(word)}
	switch word {
	case Fail, Excess:
		c.Failure = p
	case Blind, Invalid:
		c.Error = p
	case Unsupported:
		p.Message = render.Text(r.Unsupported)
		c.Skipped = p
	}
	return c
}

// runProblem is why the run as a whole could not be judged, if so.
func runProblem(s Summary) string {
	switch {
	case s.Error != "":
		return "the run ended early: " + render.Line(s.Error)
	case !slices.ContainsFunc(s.Scenarios, func(sc Scenario) bool { return len(sc.Rows) > 0 }):
		return "no row was run"
	}
	for _, sc := range s.Scenarios {
		if !sc.tried() && alone(s) == nil {
			return "no row of the scenario " + render.Text(sc.Name) + " is supported here"
		}
		if !sc.tried() {
			return "no row is supported here"
		}
	}
	return ""
}

func problem(r Row, sc Scenario) string {
	switch r.Judge(sc) {
	case Fail:
		if !r.lostBeyond(sc) {
			slow, sent, _ := r.slowBeyond()
			return fmt.Sprintf("%d of %d requests of a rollout were answered late for what may be the dataplane's doing, more than 1 in %.0f", slow, sent, 1/SlowPart)
		}
		text := fmt.Sprintf("lost %d of %d requests, budget %d", r.Lost(), r.Sent(), sc.Settings.Budget)
		if n := r.ownDoing(); n > 0 {
			text += fmt.Sprintf("; %d of them are the scenario's own doing", n)
		}
		if n := r.lostInvalid(); n > 0 {
			text += fmt.Sprintf("; and %d in rollouts that do not count, at moments at which the harness was sound", n)
		}
		return text
	case Excess:
		return fmt.Sprintf("lost %d requests: more than any phase of the checks explains", r.Lost())
	case Blind:
		return fmt.Sprintf("lost only %d requests: less than the model's 99.9 %% band allows", r.Lost())
	}
	switch {
	case r.Error != "":
		return render.Line(r.Error)
	case r.unpredicted(sc) && len(r.Rollouts) >= r.Wanted:
		return noPrediction
	}
	return fmt.Sprintf("%d of %s could be judged", len(r.Rollouts), render.Plural(r.Wanted, "rollout"))
}
