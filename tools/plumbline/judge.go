package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/report"
	runs "github.com/plumbline/plumbline/suites/run"
)

// judgedDir is where, in a run's folder, the reports of a later verdict go.
const judgedDir = "judged"

func judgeCommand() *cobra.Command {
	var p printing
	cmd := &cobra.Command{
		Use:   "judge DIR",
		Short: "Give the verdict on a run that was kept anew, from its records",
		Long: "DIR is a run's folder below results/, with its " + report.SummaryFile + " and the records of its rollouts. What was\n" +
			"written then stays; the reports of the verdict of now go to DIR/" + judgedDir + ", and rollouts on which the two\n" +
			"differ are named. The status is that of a run with this verdict.",
		Example:           "  plumbline judge results/latest",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeResults(1, disruptionReport),
		RunE: func(_ *cobra.Command, args []string) error {
			was, err := report.Read(filepath.Join(args[0], report.SummaryFile))
			if err != nil {
				return err
			}
			now, err := runs.Judge(args[0])
			if err != nil {
				return err
			}
			dir := filepath.Join(args[0], judgedDir)
			for _, sc := range now.Scenarios {
				for i := range sc.Rows {
					if r := &sc.Rows[i]; r.Records != "" { // as seen from there
						r.Records = filepath.Join("..", r.Records)
					}
				}
			}
			if err := report.Write(dir, now); err != nil {
				return err
			}
			if err := printRun(p, now, dir); err != nil {
				return err
			}
			differs := os.Stdout
			if p.data() {
				differs = os.Stderr
			}
			if err := writeLines(differs, report.Rejudged(was, now)); err != nil {
				return err
			}
			return resultOf(now, dir)
		},
	}
	p.flag(cmd)
	return cmd
}

func writeLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("print the verdict: %w", err)
		}
	}
	return nil
}

// resultOf is a report's exit code as an error, with its conclusion.
func resultOf(sum report.Summary, dir string) error {
	said := report.Complete(sum).Conclusion
	switch sum.ExitCode {
	case report.ExitLost:
		return verdictError(strings.TrimPrefix(said, "FAIL: "))
	case report.ExitUnknown:
		return errors.New(strings.TrimPrefix(said, "NOT JUDGED: ") + "; see " + filepath.Join(dir, report.MarkdownFile))
	}
	return nil
}
