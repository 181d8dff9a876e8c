package main

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"plumb-plan": main}) }

// TestScripts runs the program as a user does. `exits N plumb-plan ...` demands
// that exit status and, other than for 0, exactly one line on standard error.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
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
				if lines := strings.Split(said, "\n"); want != 0 && (said == "" || len(lines) != 1) {
					ts.Fatalf("%d lines on standard error, want one", len(lines))
				}
			},
		},
	})
}
