package report

import (
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// junit has one case per row: FAIL and EXCESS are failures, blind and invalid are errors,
// unsupported is skipped.
// A run that ended early has one more, an error: rows that were never begun are
// in no summary, and those that were may all be good.
func junit(s Summary) ([]byte, error) {
	class := "plumbline." + render.Text(s.Scenario)
	suite := render.NewSuite("plumbline "+render.Text(s.Scenario), s.Started, s.Finished.Sub(s.Started))
	for _, r := range s.Rows {
		word := r.Judge(s.Settings)
		c := render.Case{Class: class, Name: render.Text(r.Name)}
		var out []string
		names := columns()
		for i, cell := range cells(r, s.Settings) {
			out = append(out, names[i]+": "+cell)
		}
		c.Out = strings.Join(out, "\n")
		p := &render.Problem{Message: problem(r, s.Settings), Type: string(word)}
		switch word {
		case Fail, Excess:
			c.Failure = p
		case Blind, Invalid:
			c.Error = p
		case Unsupported:
			p.Message = render.Text(r.Unsupported)
			c.Skipped = p
		}
		suite.Add(c)
	}
	if p := runProblem(s); p != "" {
		suite.Add(render.Case{Class: class, Name: "run", Error: &render.Problem{Message: p, Type: string(Invalid)}})
	}
	return suite.XML()
}

// runProblem is why the run as a whole could not be judged, if so.
func runProblem(s Summary) string {
	switch {
	case s.Error != "":
		return "the run ended early: " + render.Line(s.Error)
	case len(s.Rows) == 0:
		return "no row was run"
	case !s.tried():
		return "no row is supported here"
	}
	return ""
}

func problem(r Row, s Settings) string {
	switch r.Judge(s) {
	case Fail:
		if !r.lostBeyond(s) {
			slow, sent, _ := r.slowBeyond()
			return fmt.Sprintf("%d of %d requests of a rollout were answered late for what may be the dataplane's doing, more than 1 in %.0f", slow, sent, 1/SlowPart)
		}
		text := fmt.Sprintf("lost %d of %d requests, budget %d", r.Lost(), r.Sent(), s.Budget)
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
	case r.unpredicted(s) && len(r.Rollouts) >= r.Wanted:
		return noPrediction
	}
	return fmt.Sprintf("%d of %s could be judged", len(r.Rollouts), render.Plural(r.Wanted, "rollout"))
}
