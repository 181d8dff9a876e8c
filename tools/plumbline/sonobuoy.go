package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/report/conformance"
)

func sonobuoyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sonobuoy IMAGE [-- FLAG...]",
		Short: "Print the plugin definition with which Sonobuoy runs the conformance suite in a cluster",
		Long: "IMAGE is that of fixtures/image/plumb-conformance, where the cluster's nodes find it. What follows -- are flags of\n" +
			"plumbline conformance, such as --ip-family=ipv4.",
		Example: "  plumbline sonobuoy REGISTRY/plumb-conformance:TAG -- --ip-family=ipv4 >plugin.yaml\n  sonobuoy run --plugin plugin.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n == 1 || n < 0 && len(args) == 1 {
				return nil
			}
			return errors.New("name one image; flags of plumbline conformance follow --")
		},
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := conformance.Plugin(args[0], args[1:]...)
			if err != nil {
				return err
			}
			if _, err := os.Stdout.WriteString(text); err != nil {
				return fmt.Errorf("print the plugin definition: %w", err)
			}
			return nil
		},
	}
}
