package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/ci"
	"github.com/plumbline/plumbline/ci/version"
	"github.com/plumbline/plumbline/suites/stage"
)

// versions are what a program was made from.
type versions struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	Kubernetes string `json:"kubernetes"` // of the clusters it makes
}

func versionCommand() *cobra.Command {
	var p printing
	var licenses bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print what this program was made from", Args: cobra.NoArgs,
		Example: "  plumbline version\n  plumbline version -o json\n  plumbline version --licenses | less",
		RunE: func(*cobra.Command, []string) error {
			if licenses {
				if _, err := os.Stdout.WriteString(ci.Licenses); err != nil {
					return fmt.Errorf("print the licences: %w", err)
				}
				return nil
			}
			pins, err := ci.Pins()
			if err != nil {
				return err
			}
			v := versions{version.String(), stage.Commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, pins.Kubernetes}
			return p.print(os.Stdout, v, [][]string{
				{"VERSION", "COMMIT", "GO", "PLATFORM", "KUBERNETES"}, {v.Version, v.Commit, v.Go, v.Platform, v.Kubernetes},
			})
		},
	}
	p.flag(cmd)
	cmd.Flags().BoolVar(&licenses, "licenses", false, "print the licences of this program and of the modules it is made of")
	cmd.MarkFlagsMutuallyExclusive("licenses", "output")
	return cmd
}
