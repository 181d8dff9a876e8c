package report

import (
	"encoding/xml"
	"reflect"
	"testing"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/report/render/rendertest"
	"github.com/plumbline/plumbline/suites/verdict"
)

// hostile is the sample with evil text in every string that a dataplane, a cluster or an
// error may put there, however deep: a field that is added is in it too.
func hostile() Summary {
	s := sample()
	rendertest.Poison(reflect.ValueOf(&s), rendertest.Worse, func(v any) bool {
		switch v.(type) {
		case Word, Mode, Whose, Model, verdict.Class, verdict.Cause, record.Kind: // the harness's own words
			return true
		}
		return false
	})
	return s
}

// TestHTMLIsSelfContained: the page fetches nothing, whatever objects are called.
func TestHTMLIsSelfContained(t *testing.T) {
	b, err := html(hostile())
	if err != nil {
		t.Fatal(err)
	}
	rendertest.SelfContained(t, b, 50)
	kinds := map[string]bool{}
	for _, l := range draw(hostile().Scenarios[0].Rows[0].Rollouts[0]).Lanes {
		kinds[l.Label] = true
	}
	for _, k := range []string{"pod", "node", "health check", "balancer", "requests"} {
		if !kinds[k] {
			t.Errorf("no lane of a %s is drawn: hostile names were not tested there; %v", k, kinds)
		}
	}
}

// TestMarkdownStaysInItsCells: whatever text is in a table.
func TestMarkdownStaysInItsCells(t *testing.T) {
	rendertest.MarkdownCells(t, MarkdownFile, string(markdown(hostile())), 3)
}

func TestJUnitHostile(t *testing.T) {
	b, err := junit(hostile())
	if err != nil {
		t.Fatal(err)
	}
	var got render.Suite
	if err := xml.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Cases) != len(hostile().Scenarios[0].Rows)+1 || got.Cases[0].Name != render.Text(rendertest.Worse) {
		t.Errorf("%d cases, the first %q", len(got.Cases), got.Cases[0].Name)
	}
}
