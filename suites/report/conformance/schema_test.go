package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/plumbline/plumbline/suites/schema"
)

// What programs read of a run is as docs/schema says.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema.Golden(t, *update, "conformance-report", reflect.TypeFor[Report](), text)
	var samples [][]byte
	for _, c := range []Comparison{NewComparison(sample(), sample()), NewComparison(sample(), other())} {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, text)
	}
	schema.Golden(t, *update, "conformance-comparison", reflect.TypeFor[Comparison](), samples...)
}
