package main

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/ci"
	"github.com/plumbline/plumbline/suites/stage"
)

func versionCommand() *cobra.Command {
	var p printing
	cmd := &cobra.Command{
		Use: "version", Short: "Print what this program was made from", Args: cobra.NoArgs,
		Example: "  plumbline version\n  plumbline version -o json",
		RunE: func(*cobra.Command, []string) error {
			pins, err := ci.Pins()
			if err != nil {
				return err
			}
			v := struct {
				Version    string `json:"version"`
				Commit     string `json:"commit,omitempty"`
				Go         string `json:"go"`
				Platform   string `json:"platform"`
				Kubernetes string `json:"kubernetes"` // of the clusters it makes
			}{stage.Version(), stage.Commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, pins.Kubernetes}
			return p.print(os.Stdout, v, [][]string{
				{"VERSION", "COMMIT", "GO", "PLATFORM", "KUBERNETES"}, {v.Version, v.Commit, v.Go, v.Platform, v.Kubernetes},
			})
		},
	}
	p.flag(cmd)
	return cmd
}
