package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// resultOf is a report's exit code as an error, with the scenarios it is for.
func resultOf(sum report.Summary, dir string) error {
	switch sum.ExitCode {
	case report.ExitLost:
		return verdictError(scenariosWith(sum, report.Fail, report.Excess) + " lost requests beyond its budget")
	case report.ExitUnknown:
		return errors.New(scenariosWith(sum, report.Invalid, report.Blind) + " could not be judged; see " + filepath.Join(dir, report.MarkdownFile))
	}
	return nil
}

// scenariosWith are those that have a row with one of these words; all of them if none has.
func scenariosWith(sum report.Summary, words ...report.Word) string {
	var all, some []string
	for _, sc := range sum.Scenarios {
		all = append(all, sc.Name)
		if slices.ContainsFunc(sc.Rows, func(r report.Row) bool { return slices.Contains(words, r.Word) }) {
			some = append(some, sc.Name)
		}
	}
	if len(some) == 0 {
		some = all
	}
	return "scenario " + strings.Join(some, " and scenario ")
}
