package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

func reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR",
		Short: "Write the pages of a run that was kept anew, from its figures",
		Long: "DIR is a run's folder below results/, with its " + disruptionReport + " (disruption) or " + conformanceReport + " (conformance).\n" +
			"The figures stay as they are; for another verdict on the same records there is plumbline judge.",
		Example:           "  plumbline report results/latest",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeResults(1, disruptionReport, conformanceReport),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := args[0]
			if _, err := os.Stat(filepath.Join(dir, conformanceReport)); err == nil {
				rep, err := conformance.Read(dir)
				if err != nil {
					return err
				}
				if err := conformance.WritePages(dir, rep); err != nil {
					return err
				}
			} else {
				sum, err := report.Read(filepath.Join(dir, disruptionReport))
				if err != nil {
					return err
				}
				if err := report.WritePages(dir, sum); err != nil {
					return err
				}
			}
			fmt.Println(filepath.Join(dir, report.HTMLFile))
			return nil
		},
	}
}
