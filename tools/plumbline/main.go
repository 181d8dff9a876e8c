// Plumbline is the command line of the harness: it looks at the host, builds
// images, brings clusters up and down, runs scenarios and cleans up.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/plumbline/plumbline/ci/version"
	"github.com/plumbline/plumbline/fixtures/again"
	"github.com/plumbline/plumbline/fixtures/userns"
	"github.com/plumbline/plumbline/suites/stage"
)

func main() { os.Exit(run()) }

// verdictError is the answer no to what was asked: a scenario lost more than its budget,
// a MUST does not hold, two reports differ.
type verdictError string

func (e verdictError) Error() string { return string(e) }

// Exit statuses, beside 0: done, and what was judged is as it should be.
const (
	exitNo     = 1 // it is not (verdictError)
	exitFailed = 2 // bad input, or the harness could not do it
)

// run returns the exit status.
func run() int {
	if program, ok := programs[filepath.Base(os.Args[0])]; ok {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return program(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if status, is := userns.Main(); is {
		return status
	}
	// Without it (no /proc) programs are wanted beside this one.
	stage.Self, _ = os.Executable()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal takes everything down; a second one ends the program.
	context.AfterFunc(ctx, stop)
	err := rootCommand().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ended, ok := errors.AsType[again.Ended](err); ok {
		return ended.Status
	}
	fmt.Fprintln(os.Stderr, "plumbline:", oneLine(err.Error()))
	if _, ok := errors.AsType[verdictError](err); ok {
		return exitNo
	}
	return exitFailed
}

// oneLine has what cobra suggests behind its error, and all that went wrong.
func oneLine(text string) string {
	text = strings.Replace(strings.TrimSpace(text), "\n\nDid you mean this?\n\t", "; did you mean ", 1)
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n\t", " or "), "\n", "; ")
}

func rootCommand() *cobra.Command {
	var verbose bool
	root := &cobra.Command{
		Use:   "plumbline",
		Short: "Conformance and disruption harness for Kubernetes Service dataplanes",
		Example: `  plumbline doctor                                # what this host has of what clusters need
  sudo plumbline run --cluster=lab                # the main job, in network namespaces
  sudo plumbline conformance --cluster=lab        # which Service semantics a dataplane keeps
  plumbline list rows                             # the dataplanes that can be asked for`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			var handler slog.Handler = newPlain()
			if verbose {
				handler = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
			}
			slog.SetDefault(slog.New(handler))
			// What an API warns of is said once, as kubectl does, and not for each of a thousand objects.
			rest.SetDefaultWarningHandler(rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true}))
		},
	}
	root.Version = version.String()
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().BoolVarP(&verbose, "verbose", "v", false, "the whole log: why, not only what")
	root.AddCommand(doctorCommand(), nodeImageCommand(), clusterCommand(), runCommand(), listCommand(), conformanceCommand(), compareCommand(), judgeCommand(), reportCommand(), matrixCommand(), sonobuoyCommand(), rbacCommand(), benchCommand(), cleanCommand(), versionCommand())
	return root
}
