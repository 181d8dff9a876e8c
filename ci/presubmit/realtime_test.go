package presubmit

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite ci/realtime.txt and docs/imports.md")

// realTimeList is where the tests that depend on real time stand: make test runs
// their packages one after another, but for those that only wait, ci/soak runs each of them thirty times.
const realTimeList = "../realtime.txt"

func TestRealTimeList(t *testing.T) {
	root, tree := repository(t)
	files, err := GoFiles(root, tree)
	if err != nil {
		t.Fatal(err)
	}
	found := RealTime(files)
	if *update {
		if err := os.WriteFile(realTimeList, []byte(strings.Join(found, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(realTimeList)
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if diff := cmp.Diff(listed, found); diff != "" {
		t.Errorf("ci/realtime.txt is not what the tests do; go test ./ci/presubmit -run RealTimeList -update (-listed +found):\n%s", diff)
	}
}

func TestRealTime(t *testing.T) {
	const text = `package x
import ("testing"; "testing/synctest"; "time"; "context"; "os/exec"; run "os/exec"; "github.com/plumbline/plumbline/fixtures/need")
func TestPure(t *testing.T) { _ = time.Duration(3) * time.Second }
func TestSleeps(t *testing.T) { time.Sleep(1) }
func TestCalls(t *testing.T) { helper(t) }
func helper(t *testing.T) { deeper() }
func deeper() { run.Command("true") }
func TestMethod(t *testing.T) { thing{}.work() }
type thing struct{}
func (thing) work() { context.WithTimeout(nil, 1) }
func TestFake(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }
func TestFakeRoot(t *testing.T) { need.Root(t); synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }
func Testify() { time.Sleep(1) }
func TestMain() { time.Sleep(1) }
func TestThroughProduct(t *testing.T) { product() }
`
	f, err := ParseFile("suites/x/x_test.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	product, err := ParseFile("suites/x/x.go", []byte("package x\nimport \"time\"\nfunc product() { time.Sleep(1) }\nfunc TestIsNone() { product() }\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"suites/x TestCalls", "suites/x TestFakeRoot", "suites/x TestMethod", "suites/x TestSleeps", "suites/x TestThroughProduct"}
	if got := RealTime([]*File{f, product}); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
