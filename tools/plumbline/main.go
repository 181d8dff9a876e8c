// Plumbline is the command line of the harness: it looks at the host, builds
// images, brings clusters up and down, runs scenarios and cleans up.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run()) }

// run returns the exit status: 0 done (and, for a scenario, within budget), 1 a
// scenario lost more than its budget or two reports differ, 2 bad input or the harness could not do it.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal takes everything down; a second one ends the program.
	context.AfterFunc(ctx, stop)
	var verbose bool
	root := &cobra.Command{
		Use:           "plumbline",
		Short:         "Conformance and disruption harness for Kubernetes Service dataplanes",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
		},
	}
	root.PersistentFlags().BoolVarP(&verbose, "verbose", "v", false, "say why, not only what")
	root.AddCommand(doctorCommand(), nodeImageCommand(), clusterCommand(), runCommand(), compareCommand(), matrixCommand(), sonobuoyCommand(), rbacCommand(), benchCommand(), cleanCommand())
	err := root.ExecuteContext(ctx)
	var lost lossError
	switch {
	case err == nil:
		return 0
	case asLoss(err, &lost), asDiffer(err):
		fmt.Fprintln(os.Stderr, "plumbline:", err)
		return 1
	default:
		fmt.Fprintln(os.Stderr, "plumbline:", err)
		return 2
	}
}
