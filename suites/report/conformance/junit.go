package conformance

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/suites/report/plain"
)

type junitSuite struct {
	XMLName    xml.Name        `xml:"testsuite"`
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Stamp      string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure,omitempty"`
	Error   *junitProblem `xml:"error,omitempty"`
	Skipped *junitProblem `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
}

// junit has one case per test, in the class of its profile. It is red where the
// exit code is not 0 because of the test: a MUST that failed is a failure, one
// that is inconclusive an error. JUnit knows no word between: a SHOULD or MAY that
// did not hold, or could not be judged, is skipped with its reason, which shows it
// and breaks no build. A run that cannot be judged as a whole has one more case,
// an error; so a run of skipped tests is not green either. A partial run has one too,
// skipped: it is not the whole that a reader of green takes it for.
func junit(r Report, read ReadEvidence) ([]byte, error) {
	suite := junitSuite{
		Name: "plumbline conformance " + plain.Line(implementation(r.Implementation)),
		Time: seconds(r.Duration), Stamp: r.Date.UTC().Format("2006-01-02T15:04:05"),
	}
	var err error
	if suite.Properties, err = properties(r); err != nil {
		return nil, fmt.Errorf("render %s: %w", JUnitFile, err)
	}
	q := &quoter{read: read, quota: junitQuota}
	for _, t := range r.Tests {
		suite.add(t, q)
	}
	if r.ExitCode == ExitUnjudged && suite.Errors == 0 {
		suite.Errors++
		suite.Cases = append(suite.Cases, junitCase{Class: "run", Name: "run", Time: "0.000", Error: &junitProblem{plain.Line(r.Why), string(r.Conclusion)}})
	}
	if r.Conclusion == PartlyJudged {
		suite.Skipped++
		suite.Cases = append(suite.Cases, junitCase{Class: "run", Name: "run", Time: "0.000", Skipped: &junitProblem{"partial: " + plain.Line(r.Why), string(r.Conclusion)}})
	}
	suite.Tests = len(suite.Cases)
	b, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", JUnitFile, err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

// properties are all of the report but its tests and profiles, by the path of each
// value in report.json.
func properties(r Report) ([]junitProperty, error) {
	features, documents := r.Features, r.Documented
	r.Tests, r.Profiles, r.Features, r.Documented = nil, nil, nil, nil
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var out []junitProperty
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch x := v.(type) {
		case nil:
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(x)) {
				walk(joined(".", path, key), x[key])
			}
		case []any:
			for i, e := range x {
				walk(fmt.Sprintf("%s.%d", path, i), e)
			}
		default:
			out = append(out, junitProperty{path, plain.Line(fmt.Sprint(x))})
		}
	}
	var all any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // as they stand: a seed has more digits than a float
	if err := d.Decode(&all); err != nil {
		return nil, err
	}
	walk("", all)
	for _, f := range features {
		out = append(out, junitProperty{"feature." + plain.Line(f.Name), joined(": ", plain.Line(string(f.State)), plain.Line(f.Reason))})
	}
	for _, d := range documents {
		out = append(out, junitProperty{"documented." + plain.Line(d.Test), joined(" ", plain.Line(d.Why), parens(plain.Line(strings.Join(d.Source, ", "))))})
	}
	return out, nil
}

func (s *junitSuite) add(t Test, q *quoter) {
	c := junitCase{Class: plain.Line(t.Profile), Name: plain.Line(t.Key()), Time: seconds(t.Duration)}
	p := &junitProblem{Message: explained(t), Type: string(t.Result)}
	red := t.Level == Must
	switch {
	case t.Result == Pass:
	case t.Result == Fail && red:
		c.Failure = p
		s.Failures++
	case t.Result == Inconclusive && red:
		c.Error = p
		s.Errors++
	case t.Result == Fail || t.Result == Inconclusive:
		p.Message = fmt.Sprintf("%s %s: %s", t.Level, t.Result, p.Message)
		c.Skipped = p
		s.Skipped++
	default:
		p.Message = fmt.Sprintf("%s: %s", t.Result, p.Message)
		c.Skipped = p
		s.Skipped++
	}
	c.Out = junitOut(t, q)
	s.Cases = append(s.Cases, c)
}

func junitOut(t Test, q *quoter) string {
	var out []string
	for _, f := range []fact{
		{"promise", t.Title}, {"level", string(t.Level)}, {"source", strings.Join(t.Source, ", ")}, {"upstream", t.Upstream},
		{"result", string(t.Result)}, {"reason", t.Reason}, {"documented", t.Known}, {"measured", measured(t)},
	} {
		if text := plain.Line(f.Text); text != "" {
			out = append(out, f.Name+": "+text)
		}
	}
	if t.Result != Fail && t.Result != Inconclusive {
		return strings.Join(out, "\n")
	}
	for _, e := range q.excerpts(t) {
		out = append(out, joined("\n", "evidence "+joined(": ", e.Path, e.Note), e.Text))
	}
	return strings.Join(out, "\n")
}

func seconds(d Duration) string { return fmt.Sprintf("%.3f", time.Duration(d).Seconds()) }
