package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

func compareCommand() *cobra.Command {
	p := printing{more: []string{asMarkdown, asHTML}}
	cmd := &cobra.Command{
		Use:   "compare REPORT REPORT...",
		Short: "Hold two reports against each other, or many; fails where they differ (those of a scenario: by more than chance)",
		Long: `A REPORT is a summary.json (scenario) or report.json (conformance), or the directory that holds it.
More than two are compared as a whole: those of conformance must be identical, of a scenario every two are
held against each other, at an error of 5 % for all of them.

Exit status: 0 they agree, 1 they differ, 2 bad input, or rows that could not be judged and no other difference.`,
		Example: `  plumbline compare results/20261124-101500-before results/latest
  plumbline compare results/2026*   # many runs: every two against each other
  plumbline compare before after -o markdown >>$GITHUB_STEP_SUMMARY`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeResults(0, disruptionReport, conformanceReport),
		RunE: func(_ *cobra.Command, args []string) error {
			_, kind, err := conformance.ReadKind(args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 && kind != conformance.Kind {
				return compareTwo(p, args)
			}
			two := len(args) == 2
			switch {
			case p.as == asMarkdown || p.as == asHTML:
				return fmt.Errorf("--output %s is for two reports of scenarios", p.as)
			case p.data() && !two:
				return fmt.Errorf("--output %s is for two reports", p.as)
			case kind != conformance.Kind:
				return compareMany(args)
			}
			agree, err := compareConformance(p, args)
			if err == nil && !agree {
				err = verdictError("the reports differ")
			}
			return err
		},
	}
	p.flag(cmd)
	return cmd
}

func compareConformance(p printing, paths []string) (agree bool, err error) {
	all := make([]conformance.Report, len(paths))
	for i, path := range paths {
		if all[i], err = conformance.Read(path); err != nil {
			return false, err
		}
	}
	switch {
	case len(all) > 2:
		return conformance.CompareAll(os.Stdout, all)
	case p.data():
		c := conformance.NewComparison(all[0], all[1])
		return c.Same, p.encode(os.Stdout, c)
	}
	return conformance.CompareTable(os.Stdout, all[0], all[1])
}

func compareMany(paths []string) error {
	all, err := readRuns(paths)
	if err != nil {
		return err
	}
	code, err := report.CompareAll(os.Stdout, all, runNames(paths))
	switch {
	case err != nil:
		return err
	case code == 1:
		return verdictError("the reports differ")
	case code == 2:
		return errors.New("some of the reports could not be compared")
	}
	return nil
}

func compareTwo(p printing, paths []string) error {
	all, err := readRuns(paths)
	if err != nil {
		return err
	}
	c := report.NewComparison(all[0], all[1], [2]string(runNames(paths)))
	if err := printComparison(p, c); err != nil {
		return err
	}
	switch c.ExitCode {
	case 1:
		return verdictError("the reports differ: " + strings.TrimPrefix(c.Conclusion, "DIFFER: "))
	case 2:
		return errors.New("the reports could not be compared: " + strings.TrimPrefix(c.Conclusion, "NOT JUDGED: "))
	}
	return nil
}

func printComparison(p printing, c report.Comparison) error {
	var text []byte
	var err error
	switch p.as {
	case asMarkdown:
		text = c.Markdown()
	case asHTML:
		text, err = c.HTML()
	case asJSON, asYAML:
		return p.encode(os.Stdout, c)
	default:
		return c.Table(os.Stdout, report.Form{Wide: p.wide(), Width: width(os.Stdout)})
	}
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		return fmt.Errorf("print the comparison: %w", err)
	}
	return nil
}

func readRuns(paths []string) (all []report.Summary, err error) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, report.SummaryFile)
		}
		s, err := report.Read(path)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// runNames are what runs go by: their folders, with links followed, such as latest.
func runNames(paths []string) (names []string) {
	for _, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if filepath.Base(path) == report.SummaryFile {
			path = filepath.Dir(path)
		}
		name := filepath.Base(path)
		if slices.Contains(names, name) { // tell them apart by where they are
			name = filepath.Join(filepath.Base(filepath.Dir(path)), name)
		}
		names = append(names, name)
	}
	return names
}
