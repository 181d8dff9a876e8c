package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/ci/version"
)

// The other programs are called as this one is: help and version on standard output, and one line
// on standard error for what is wrong.
func TestProgramsAreCalledAlike(t *testing.T) {
	for name, program := range programs {
		for _, tc := range []struct {
			args           []string
			code           int
			stdout, stderr string // how it begins, after the program's name where that is said
		}{
			{[]string{"--version"}, 0, name + " " + version.String() + "\n", ""},
			{[]string{"--help"}, 0, "usage: " + name + " ", ""},
			{[]string{"--no-such"}, 2, "", name + ": flag provided but not defined: -no-such; see " + name + " --help\n"},
		} {
			var stdout, stderr bytes.Buffer
			code := program(t.Context(), tc.args, &stdout, &stderr)
			if code != tc.code || !strings.HasPrefix(stdout.String(), tc.stdout) || stderr.String() != tc.stderr || tc.stdout == "" && stdout.Len() > 0 {
				t.Errorf("%s %s: exit %d, %q, %q", name, tc.args, code, &stdout, &stderr)
			}
		}
	}
}
