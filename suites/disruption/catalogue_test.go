package disruption

import (
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/timeline"
)

// Every scenario says what it is, promises something, and can be run with its own defaults; what its
// steps do it also needs.
func TestCatalogue(t *testing.T) {
	for _, e := range All() {
		r, err := scenario.Plan(nil, "", e)
		if err == nil {
			err = r.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
		if e.Title == "" || !strings.HasSuffix(e.Says, ".") || len(e.Source) == 0 {
			t.Errorf("%s: title %q, says %q, source %q", e.Name, e.Title, e.Says, e.Source)
		}
		s := e.Build(e.Defaults)
		if len(s.Promises) == 0 || s.Replicas < 1 || s.Policy == "" {
			t.Errorf("%s: %+v", e.Name, s)
		}
		if last := s.Steps[len(s.Steps)-1]; last.Wait == 0 || last.Do != nil {
			t.Errorf("%s: nothing is recorded after its last act", e.Name)
		}
		world := disrupt.World{NoNodes: "none"}
		for _, step := range s.Steps {
			if step.Do == nil {
				continue
			}
			switch act := step.Do(scenario.Now{Timeline: &timeline.Timeline{}}).(type) {
			case disrupt.ReloadLB, disrupt.EndLB:
				wants(t, e.Name, s, disrupt.NeedBalancers, world)
			case disrupt.CutAPI:
				wants(t, e.Name, s, disrupt.NeedNodes, world)
			case nil:
				t.Errorf("%s: a step does nothing", e.Name)
			default:
				_ = act // through the API
			}
		}
	}
	if _, err := Find("e9"); err == nil || !strings.Contains(err.Error(), `unknown scenario "e9"; known: rolling-update, lb-reload`) {
		t.Errorf("unknown scenario: %v", err)
	}
	if _, err := Find("e1", "e1"); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("the same twice: %v", err)
	}
	if two, err := Find("lb-crash", "rolling-update"); err != nil || len(two) != 2 || two[0].Name != "lb-crash" {
		t.Errorf("%v, %v", two, err)
	}
}

func wants(t *testing.T, name string, s scenario.Scenario, n disrupt.Need, without disrupt.World) {
	t.Helper()
	for _, have := range s.Needs {
		if have == n && without.Lacks(n) != "" {
			return
		}
	}
	t.Errorf("%s: does not say that it needs %s", name, n)
}

// What is taken back is said, and nothing is acted on after that.
func TestUndoIsAStep(t *testing.T) {
	for _, e := range All() {
		undone := false
		for _, step := range e.Build(e.Defaults).Steps {
			if undone && step.Do != nil {
				t.Errorf("%s: %q comes after what was done is taken back", e.Name, step.Name)
			}
			undone = undone || step.Undo
		}
	}
}
