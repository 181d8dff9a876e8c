package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/suites/report/render"
)

// junit has one case per test, in the class of its profile. It is red where the
// exit code is not 0 because of the test: a MUST that failed is a failure, one
// that is inconclusive an error. JUnit knows no word between: a SHOULD or MAY that
// did not hold, or could not be judged, is skipped with its reason, which shows it
// and breaks no build. A run that cannot be judged as a whole has one more case,
// an error; so a run of skipped tests is not green either. A partial run has one too,
// skipped: it is not the whole that a reader of green takes it for.
func junit(r Report, read ReadEvidence) ([]byte, error) {
	suite := render.NewSuite("plumbline conformance "+render.Line(implementation(r.Implementation)), r.Date, time.Duration(r.Duration))
	all, err := properties(r)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", JUnitFile, err)
	}
	suite.Properties = &render.Properties{All: all}
	q := &quoter{read: read, quota: junitQuota, tests: len(problems(r.Tests))}
	for _, t := range r.Tests {
		suite.Add(junitCase(t, q))
	}
	run := render.Case{Class: "run", Name: "run", Time: render.Seconds(0)}
	if r.ExitCode == ExitUnjudged && suite.Errors == 0 {
		failed := run
		failed.Error = &render.Problem{Message: render.Line(r.Why), Type: string(r.Conclusion)}
		suite.Add(failed)
	}
	if r.Conclusion == PartlyJudged {
		run.Skipped = &render.Problem{Message: "partial: " + render.Line(r.Why), Type: string(r.Conclusion)}
		suite.Add(run)
	}
	return suite.XML()
}

// properties are all of the report but its tests and profiles, by the path of each
// value in report.json.
func properties(r Report) ([]render.Property, error) {
	features, documents := r.Features, r.Documented
	r.Tests, r.Profiles, r.Features, r.Documented = nil, nil, nil, nil
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var out []render.Property
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch x := v.(type) {
		case nil:
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(x)) {
				walk(render.Joined(".", path, key), x[key])
			}
		case []any:
			for i, e := range x {
				walk(fmt.Sprintf("%s.%d", path, i), e)
			}
		default:
			out = append(out, render.Property{Name: path, Value: render.Line(fmt.Sprint(x))})
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
		out = append(out, render.Property{Name: "feature." + render.Line(f.Name), Value: render.Joined(": ", render.Line(string(f.State)), render.Line(f.Reason))})
	}
	for _, d := range documents {
		out = append(out, render.Property{Name: "documented." + render.Line(d.Test), Value: render.Joined(" ", render.Line(d.Why), render.Parens(render.Line(strings.Join(d.Source, ", "))))})
	}
	return out, nil
}

func junitCase(t Test, q *quoter) render.Case {
	c := render.Case{
		Class: render.Line(t.Profile), Name: render.Line(t.Key()), Time: render.Seconds(time.Duration(t.Duration)), Out: junitOut(t, q),
	}
	p := &render.Problem{Message: explained(t), Type: string(t.Result)}
	red := t.binding() == Must
	switch {
	case t.Result == Pass:
	case t.Result == Fail && red:
		c.Failure = p
	case t.Result == Inconclusive && red:
		c.Error = p
	case t.Result == Fail || t.Result == Inconclusive:
		p.Message = fmt.Sprintf("%s %s: %s", t.level(), t.Result, p.Message)
		c.Skipped = p
	default:
		p.Message = fmt.Sprintf("%s: %s", t.Result, p.Message)
		c.Skipped = p
	}
	return c
}

func junitOut(t Test, q *quoter) string {
	var out []string
	for _, f := range []render.Fact{
		{"promise", t.Title}, {"promised by", strings.Join(t.Promised, "; ")}, {"level", t.level()}, {"source", strings.Join(t.Source, ", ")}, {"upstream", t.Upstream},
		{"result", string(t.Result)}, {"reason", t.Reason}, {"sent", t.Sent}, {"came back", t.Came}, {"documented", t.Known}, {"measured", measured(t)},
	} {
		if text := render.Line(f.Text()); text != "" {
			out = append(out, f.Name()+": "+text)
		}
	}
	if t.Result != Fail && t.Result != Inconclusive {
		return strings.Join(out, "\n")
	}
	steps, before, evidence := q.next(t)
	if text := earlier(before, steps); text != "" {
		out = append(out, text)
	}
	for _, s := range steps {
		out = append(out, render.Line(fmt.Sprintf("%s %s%s", s.At, s.Did, render.Prefixed(": ", s.Came))))
	}
	for _, n := range t.Legend {
		out = append(out, render.Line(n.Address+" is "+n.Who))
	}
	for _, e := range evidence {
		out = append(out, render.Joined("\n", "evidence "+render.Joined(": ", e.Path, e.Note), e.Text))
	}
	return strings.Join(out, "\n")
}
