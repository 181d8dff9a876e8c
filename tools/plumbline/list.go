package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/disruption"
	"github.com/plumbline/plumbline/suites/report/render"
)

func listCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List what can be asked for by name", Args: cobra.NoArgs}
	cmd.AddCommand(&cobra.Command{
		Use: "scenarios", Short: "What is done to a cluster under load, and what is promised", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return listScenarios(os.Stdout) },
	})
	return cmd
}

func listScenarios(w io.Writer) error {
	rows := [][]string{{"SCENARIO", "WHAT IS DONE", "WHAT IS PROMISED"}}
	for _, e := range disruption.All() {
		rows = append(rows, []string{e.Name, e.Title, e.Says})
	}
	var b bytes.Buffer
	render.Table(&b, rows, func(string) bool { return false })
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("list scenarios: %w", err)
	}
	return nil
}
