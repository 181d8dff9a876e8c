package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

func compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare REPORT REPORT...",
		Short: "Print two reports side by side, or compare many; fails where they differ (those of a scenario: by more than chance)",
		Long: "A REPORT is a summary.json (scenario) or report.json (conformance), or the directory that holds it.\n" +
			"More than two are compared as a whole: those of conformance must be identical, of a scenario every two are\n" +
			"held against each other, at an error of 5 % for all of them.",
		Example: `  plumbline compare results/20261124-101500-before results/latest
  plumbline compare results/2026*   # many runs: every two against each other`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeResults(0, disruptionReport, conformanceReport),
		RunE: func(_ *cobra.Command, args []string) error {
			_, kind, err := conformance.ReadKind(args[0])
			if err != nil {
				return err
			}
			agree := false
			if kind == conformance.Kind {
				agree, err = compareConformance(args)
			} else {
				agree, err = compareDisruption(args)
			}
			if err == nil && !agree {
				err = verdictError("the reports differ")
			}
			return err
		},
	}
}

func compareConformance(paths []string) (agree bool, err error) {
	all := make([]conformance.Report, len(paths))
	for i, path := range paths {
		if all[i], err = conformance.Read(path); err != nil {
			return false, err
		}
	}
	if len(all) > 2 {
		return conformance.CompareAll(os.Stdout, all)
	}
	return conformance.CompareTable(os.Stdout, all[0], all[1])
}

func compareDisruption(paths []string) (agree bool, err error) {
	all := make([]report.Summary, len(paths))
	for i, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, report.SummaryFile)
		}
		if all[i], err = report.Read(path); err != nil {
			return false, err
		}
	}
	if len(all) > 2 {
		return report.CompareAll(os.Stdout, all)
	}
	return report.CompareTable(os.Stdout, all[0], all[1])
}
