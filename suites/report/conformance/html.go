package conformance

import (
	_ "embed"
	"fmt"
	"html/template"

	"github.com/plumbline/plumbline/suites/report/render"
)

//go:embed report.html.tmpl
var page string // const: embedding needs a variable

// view is what the page shows; html/template escapes all of its text.
type view struct {
	Style                         template.CSS
	Title, Conclusion, Why, Class string
	Top, Files                    []string
	Facts                         []render.Fact
	Profiles                      [][]string // the first is the heading
	Features                      []Feature
	Known                         []string // which failures are documented
	Failures                      []viewTest
	First                         []viewTest // of Failures, for the first screen
	Filters                       []filter   // by result
	Groups                        []group    // tests by profile
	Legend                        []string
}

type viewTest struct {
	Test
	Key, Word, Why, Measured string
	Level                    string // and what it counts as here
	Cited                    []render.Citation
	Class                    string // its result's
	Explained                string // Why, and what is documented
	Earlier                  string // steps that are not shown
	Excerpts                 []excerpt
}

// filter is a box to tick: its class is that of the rows it hides.
type filter struct {
	Class, Text string
	N           int
}

type group struct {
	Class, Name string
	Tests       []viewTest
}

func html(r Report, read ReadEvidence) ([]byte, error) {
	return render.Page(HTMLFile, page, newView(r, read))
}

func newView(r Report, read ReadEvidence) view {
	v := view{
		Title: render.Line(implementation(r.Implementation)), Conclusion: string(r.Conclusion), Why: render.Line(r.Why), Class: []string{"pass", "fail", "unknown"}[min(max(r.ExitCode, 0), 2)],
		Style: template.CSS(render.Style), Files: []string{JSONFile, MarkdownFile, JUnitFile},
		Top:   []string{r.Date.UTC().Format("2006-01-02 15:04:05Z"), "took " + short(r.Duration)},
		Facts: facts(r), Profiles: profileTable(r), Known: failures(r), Legend: legend(),
	}
	for _, f := range r.Features {
		v.Features = append(v.Features, Feature{render.Line(f.Name), State(render.Line(string(f.State))), render.Line(f.Reason)})
	}
	for _, result := range []Result{Pass, Fail, Skip, Unsupported, Inconclusive} {
		f := filter{Class: "r-" + string(result), Text: string(result)}
		for _, t := range r.Tests {
			if t.Result == result {
				f.N++
			}
		}
		v.Filters = append(v.Filters, f)
	}
	failed := problems(r.Tests)
	q := &quoter{read: read, quota: pageQuota, tests: len(failed)}
	for _, t := range failed {
		steps, before, excerpts := q.next(t)
		t.Steps = steps
		vt := newViewTest(t)
		vt.Earlier, vt.Excerpts = earlier(before, steps), excerpts
		v.Failures = append(v.Failures, vt)
	}
	v.First = v.Failures[:min(len(v.Failures), 8)]
	for _, t := range r.Tests {
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Name != render.Line(t.Profile) {
			v.Groups = append(v.Groups, group{Class: fmt.Sprintf("p%d", n), Name: render.Line(t.Profile)})
		}
		g := &v.Groups[len(v.Groups)-1]
		g.Tests = append(g.Tests, newViewTest(t))
	}
	return v
}

func newViewTest(t Test) viewTest {
	vt := viewTest{
		Test: t, Level: t.level(), Key: render.Line(t.Key()), Word: word(t), Why: reason(t), Measured: measured(t),
		Class: "r-" + string(t.Result),
	}
	for _, s := range t.Source {
		vt.Cited = append(vt.Cited, render.Cite(s))
	}
	vt.Promised = nil
	for _, p := range t.Promised {
		vt.Promised = append(vt.Promised, render.Line(p))
	}
	vt.Sent, vt.Came, vt.Steps, vt.Legend = render.Line(t.Sent), render.Line(t.Came), nil, nil
	for _, s := range t.Steps {
		vt.Steps = append(vt.Steps, Step{s.At, render.Line(s.Did), render.Line(s.Came), s.Wrong})
	}
	for _, n := range t.Legend {
		vt.Legend = append(vt.Legend, Named{render.Line(n.Address), render.Line(n.Who)})
	}
	vt.Title, vt.Upstream, vt.Known, vt.Explained = render.Line(t.Title), render.Line(t.Upstream), render.Line(t.Known), explained(t)
	return vt
}
