package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline/plumbline/suites/row"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"plumbline": main}) }

// TestScripts runs the CLI as a user does. `exits N plumbline ...` demands that
// exit status and, other than for 0, exactly one line on standard error.
func TestScripts(t *testing.T) {
	kept, err := filepath.Abs("../../suites/run/testdata/kept")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			return os.CopyFS(filepath.Join(env.WorkDir, "kept"), os.DirFS(kept))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: exits STATUS PROGRAM ARGS...")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				err = ts.Exec(args[1], args[2:]...)
				got := 0
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					got = exit.ExitCode()
				} else {
					ts.Check(err)
				}
				if got != want {
					ts.Fatalf("exit status %d, want %d", got, want)
				}
				said := strings.TrimSpace(ts.ReadFile("stderr"))
				if lines := strings.Split(said, "\n"); want != 0 && len(lines) != 1 {
					ts.Fatalf("%d lines on standard error, want one", len(lines))
				}
			},
		},
	})
}

// A declaration holds the one foreign row to what it says, and no other.
func TestDeclare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cilium.yaml")
	if err := os.WriteFile(file, []byte("project: cilium\nsupported: [terminating-fallback]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]string{
		"kube-proxy:nftables,existing,plumb-nftables:ignore+drop": "existing", "manifest:a.yaml": "manifest:a.yaml",
		"existing,manifest:a.yaml": "", "plumb-nftables": "",
	} {
		rows, err := row.Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		err = declare(rows, file)
		var declared []row.Row
		for _, r := range rows {
			if r.Declared {
				declared = append(declared, r)
			}
		}
		if got := row.Names(declared); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: declared %q, want %q; %v", list, got, want, err)
		}
	}
}

// TestCommand: the line that does a run again has what was given, as it is given, without folders of
// this host.
func TestCommand(t *testing.T) {
	cmd := runCommand()
	err := cmd.ParseFlags([]string{"--cluster=lab", "--scenario=lb-reload", "--scenario=api-outage", "--rows=plumb-nftables,manifest:/srv/a/c.yaml",
		"--fail-on", "plumb-nftables,manifest:/srv/a/c.yaml", "--delay=3s", "--profile=l4-strict,fall=2", "--results=/srv/r", "--kubeconfig=/srv/k", "-o", "json", "--name=it's"})
	if err != nil {
		t.Fatal(err)
	}
	want := `plumbline run --cluster=lab --delay=3s --fail-on=plumb-nftables,manifest:c.yaml --kubeconfig=k '--name=it'\''s' --profile=l4-strict,fall=2 --rows=plumb-nftables,manifest:c.yaml --scenario=lb-reload,api-outage`
	if got := command(cmd); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
