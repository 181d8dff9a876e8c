package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/schema"
)

// TestReportFilled: a run in a lab leaves no field of its report empty that it could
// have filled. Its nodes are of no image, our own declarations name nobody, nobody else
// proxies Services there, and nothing went wrong.
func TestReportFilled(t *testing.T) {
	need.Root(t)
	need.Program(t, "haproxy")
	if testing.Short() {
		t.Skip("seconds of a lab")
	}
	program, results := filepath.Join(t.TempDir(), "plumbline"), t.TempDir()
	const version = "-X github.com/plumbline/plumbline/ci/version.version=0123456"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", version, "-o", program, "../../tools/plumbline").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), program, "conformance", "--focus=clusterip-udp$", "--cluster=lab", "--results="+results)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dirs, err := filepath.Glob(filepath.Join(results, "*", conformance.JSONFile))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("reports: %q, %v", dirs, err)
	}
	r, err := conformance.Read(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(reflect.TypeFor[conformance.Report](), text); err != nil {
		t.Errorf("%s: %v", dirs[0], err)
	}
	empty := slices.DeleteFunc(report.Empty(r), func(field string) bool {
		return slices.Contains([]string{
			"implementation.organization", "implementation.url", "implementation.contact",
			"environment.nodeImage", "environment.lacks", "environment.beside", "environment.noise.failures", "exitCode", "error", "documented",
		}, field)
	})
	if len(empty) > 0 {
		t.Errorf("empty: %q", empty)
	}
}
