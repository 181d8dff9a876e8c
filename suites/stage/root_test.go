package stage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
)

// A tree is whose its module is: a folder of root's in which somebody else has put a module,
// such as /tmp, is none, and a user's clone is one for root too.
func TestIsRoot(t *testing.T) {
	need.Root(t)
	const ours = "module github.com/plumbline/plumbline\n\ngo 1.26\n"
	for name, c := range map[string]struct {
		text        string
		folder, mod int
		want        bool
	}{
		"root's":               {ours, 0, 0, true},
		"a user's":             {ours, 1000, 1000, true},
		"of root in a user's":  {ours, 1000, 0, true},
		"of a user in root's":  {ours, 0, 1000, false},
		"of one in another's":  {ours, 1001, 1000, false},
		"of another module":    {"module example.com/x\n", 0, 0, false},
		"of a longer name":     {"module github.com/plumbline/plumbline/x\n", 0, 0, false},
		"nothing of the kind":  {"", 0, 0, false},
		"without a line's end": {"module github.com/plumbline/plumbline", 0, 0, false},
	} {
		dir := t.TempDir()
		mod := filepath.Join(dir, "go.mod")
		if err := os.WriteFile(mod, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(mod, c.mod, -1); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, c.folder, -1); err != nil {
			t.Fatal(err)
		}
		if got := isRoot(dir); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
