package conformance

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/suites/report/conformance"
)

// TestDeliver: a report goes as it stands unless something happened after it.
func TestDeliver(t *testing.T) {
	for name, tc := range map[string]struct {
		ended error
		want  string
	}{
		"over":            {nil, ""},
		"closed in error": {errors.New("delete namespace x: no"), "the run ended early: delete namespace x: no"},
	} {
		t.Run(name, func(t *testing.T) {
			o := New()
			o.Results = t.TempDir()
			o.Stage.Dir = filepath.Join(o.Results, "of-this-run")
			r := conformance.Report{Tests: []conformance.Test{{ID: "a", Profile: "Core", Level: conformance.Must, Result: conformance.Pass}}}
			if err := errors.Join(conformance.Write(o.Stage.Dir, r), o.Deliver(tc.ended)); err != nil {
				t.Fatal(err)
			}
			done, err := os.ReadFile(filepath.Join(o.Results, "done"))
			if err != nil || string(done) != filepath.Join(o.Results, "plumbline.tar.gz") {
				t.Errorf("done says %q, %v", done, err)
			}
			text, err := os.ReadFile(filepath.Join(o.Stage.Dir, conformance.JUnitFile))
			if x := string(text); err != nil || !strings.Contains(x, `name="a"`) || !strings.Contains(x, tc.want) || strings.Contains(x, "<error ") != (tc.want != "") {
				t.Errorf("%s does not have the test and %q: %v\n%s", conformance.JUnitFile, tc.want, err, x)
			}
		})
	}
}
