package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/report/conformance"
)

func matrixCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "matrix REPORT...",
		Short:             "Print conformance reports as one page of Markdown: dataplanes by behaviours",
		Long:              "A REPORT is the report.json of a conformance run, or the directory that holds it.",
		Example:           "  plumbline matrix results/*-conformance-* >MATRIX.md",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeResults(0, conformanceReport),
		RunE: func(_ *cobra.Command, paths []string) error {
			var all []conformance.Report
			for _, path := range paths {
				r, err := conformance.Read(path)
				if err != nil {
					return err
				}
				all = append(all, r)
			}
			if _, err := os.Stdout.WriteString(conformance.Matrix(all)); err != nil {
				return fmt.Errorf("print the matrix: %w", err)
			}
			return nil
		},
	}
}
