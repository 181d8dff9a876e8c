package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write testdata/help anew")

// TestHelp: every command's help is as in its file, and says by an example how it is used.
func TestHelp(t *testing.T) {
	const dir = "testdata/help"
	seen := map[string]bool{}
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				each(sub)
			}
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".txt"
		seen[name] = true
		var b bytes.Buffer
		cmd.SetOut(&b)
		cmd.InitDefaultHelpFlag()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		if cmd.Runnable() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		file := filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if diff := cmp.Diff(string(want), b.String()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got; -update):\n%s", cmd.CommandPath(), err, diff)
		}
	}
	root := rootCommand()
	root.Version = "" // of a build
	root.InitDefaultCompletionCmd()
	each(root)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f.Name()] {
			t.Errorf("%s is of no command", f.Name())
		}
	}
}
