package report

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/report/plain"
)

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitProblem `xml:"failure,omitempty"`
	Error   *junitProblem `xml:"error,omitempty"`
	Skipped *junitProblem `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
}

// junit has one case per row: FAIL is a failure, blind and invalid are errors,
// unsupported is skipped.
// A run that ended early has one more, an error: rows that were never begun are
// in no summary, and those that were may all be good.
func junit(s Summary) ([]byte, error) {
	suite := junitSuite{
		Name:  "plumbline " + plain.Text(s.Scenario),
		Time:  fmt.Sprintf("%.3f", s.Finished.Sub(s.Started).Seconds()),
		Stamp: s.Started.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, r := range s.Rows {
		word := r.Judge(s.Settings)
		c := junitCase{Class: "plumbline." + plain.Text(s.Scenario), Name: plain.Text(r.Name)}
		var out []string
		names := columns()
		for i, cell := range cells(r, s.Settings) {
			out = append(out, names[i]+": "+cell)
		}
		c.Out = strings.Join(out, "\n")
		p := &junitProblem{Message: problem(r, s.Settings), Type: string(word)}
		switch word {
		case Fail:
			c.Failure = p
			suite.Failures++
		case Blind, Invalid:
			c.Error = p
			suite.Errors++
		case Unsupported:
			c.Skipped = &junitProblem{Message: plain.Text(r.Unsupported), Type: string(word)}
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, c)
	}
	if p := runProblem(s); p != "" {
		suite.Errors++
		suite.Cases = append(suite.Cases, junitCase{
			Class: "plumbline." + plain.Text(s.Scenario), Name: "run", Error: &junitProblem{Message: p, Type: string(Invalid)},
		})
	}
	suite.Tests = len(suite.Cases)
	b, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render junit.xml: %w", err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

// runProblem is why the run as a whole could not be judged, if so.
func runProblem(s Summary) string {
	switch {
	case s.Error != "":
		return "the run ended early: " + plain.Line(s.Error)
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
		return fmt.Sprintf("lost %d of %d requests, budget %d", r.Lost(), r.Sent(), s.Budget)
	case Blind:
		return fmt.Sprintf("lost only %d requests: less than the model's 99.9 %% band allows", r.Lost())
	}
	switch {
	case r.Error != "":
		return plain.Line(r.Error)
	case r.unpredicted(s) && len(r.Rollouts) >= r.Wanted:
		return noPrediction
	}
	return fmt.Sprintf("%d of %s could be judged", len(r.Rollouts), plural(r.Wanted, "rollout"))
}
