package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/stage"
)

func nodeImageCommand() *cobra.Command {
	return asksFor(&cobra.Command{Use: "node-image", Short: "The kind node image", Example: "  sudo plumbline node-image build"}, &cobra.Command{
		Use:     "build",
		Short:   "Build the node image from Go modules and Debian packages; nothing if it is there",
		Example: "  sudo plumbline node-image build",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			images, err := stage.NewImages(cmd.Context(), os.Stderr, slog.Default())
			if err != nil {
				return err
			}
			ref, err := images.BuildNode(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Println(ref)
			return nil
		},
	})
}
