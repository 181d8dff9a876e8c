package report

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/plumbline/plumbline/suites/schema"
	"github.com/plumbline/plumbline/suites/verdict"
)

// What programs read of a run and of a comparison is as docs/schema says.
func TestSchemas(t *testing.T) {
	with := sample()
	empty := verdict.Judge(verdict.Input{}) // nothing was recorded
	with.Scenarios[0].Rows[0].Invalid = append(with.Scenarios[0].Rows[0].Invalid, empty)
	summary, err := summaryJSON(Complete(with))
	if err != nil {
		t.Fatal(err)
	}
	schema.Golden(t, *update, "disruption-report", reflect.TypeFor[Summary](), summary)
	other := sample()
	other.Scenarios[0].Rows = other.Scenarios[0].Rows[:2]
	compared, err := json.Marshal(NewComparison(Complete(sample()), Complete(other), [2]string{"before", "after"}))
	if err != nil {
		t.Fatal(err)
	}
	schema.Golden(t, *update, "comparison", reflect.TypeFor[Comparison](), compared)
}
