package ci

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The last words of a failed step name the cause, wherever it stands in the log.
func TestCause(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(report+".md", []byte("# fail: lost 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	passed := strings.Repeat("ok  \tm/passed\t0.1s\n=== RUN   TestX\n    x_test.go:1: said by one that passed\n--- PASS: TestX (0.00s)\n", 100)
	for name, tc := range map[string]struct{ log, want string }{
		"a test": {
			passed + "--- FAIL: TestY (0.1s)\n    --- FAIL: TestY/sub (0.1s)\n        y_test.go:2: why\nFAIL\nFAIL\tm/y\t1s\n" + passed + "FAIL\nmake: *** [Makefile:3: test] Error 1\n",
			"--- FAIL: TestY (0.1s)\n    --- FAIL: TestY/sub (0.1s)\n        y_test.go:2: why\nFAIL\nFAIL\tm/y\t1s\n",
		},
		"a package that does not build": {
			"# m/z [m/z.test]\nz.go:1: undefined: x\n" + passed + "FAIL\tm/z [build failed]\n" + passed + "FAIL\n",
			"# m/z [m/z.test]\nz.go:1: undefined: x\nFAIL\tm/z [build failed]\n",
		},
		"a panic": {
			passed + "panic: boom\n\ngoroutine 1 [running]:\nFAIL\tm/p\t1s\n",
			"panic: boom\n\ngoroutine 1 [running]:\nFAIL\tm/p\t1s\n",
		},
		"a program": {"one line\nplumbline: row x lost\n", "one line\nplumbline: row x lost\n"},
		"a report":  {"a table\n\nreport: " + report + ".html\nlost\n", "a table\n\nreport: " + report + ".html\nlost\nfrom " + report + ".md:\n# fail: lost 3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(log, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "ci/cause", log)
			cmd.Dir = ".."
			out, err := cmd.CombinedOutput()
			if want := fmt.Sprintf("ci: from %s:\n%s", log, tc.want); err != nil || string(out) != want {
				t.Errorf("%v: it says\n%s\nwant\n%s", err, out, want)
			}
		})
	}
}
