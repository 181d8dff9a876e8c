package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/client"
	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/ci"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/host/clean"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/suites/stage"
)

func doctorCommand() *cobra.Command {
	var fix string
	var p printing
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Print what this host has of what clusters need",
		Long: `Print what this host has of what clusters need, as a table: name, status (ok,
missing or info), value, and under it what to do. Nothing is changed, unless --fix
asks for it. Without root it says what it could not look at.

The last lines say for each kind of cluster whether it can come up, and else why not.

Exit 0: one of a kind at least can be brought up here. Exit 2: none.`,
		Example: "  plumbline doctor\n  plumbline doctor -o json\n  sudo plumbline doctor --fix=lab",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("fix") {
				return prepareHost(cmd.Context(), fix)
			}
			return doctor(cmd.Context(), &p, os.Stdout, host.StateDir)
		},
	}
	p.flag(cmd)
	cmd.Flags().StringVar(&fix, "fix", "", "install what is missing, as root on Debian or Ubuntu: for a `cluster` of the kind lab (a few packages) or kind (a Docker engine as well)")
	completeOne(cmd, "fix", "lab", "kind")
	cmd.MarkFlagsMutuallyExclusive("fix", "output")
	return cmd
}

// prepareHost runs the script that installs what clusters of a kind need.
func prepareHost(ctx context.Context, cluster string) (err error) {
	args, ok := map[string][]string{"lab": {"--lab"}, "kind": nil}[cluster]
	if !ok {
		return fmt.Errorf("unknown --fix %q; known: lab, kind", cluster)
	}
	if os.Geteuid() != 0 {
		return errors.New("installing what a host lacks needs root: run this with sudo")
	}
	dir, err := os.MkdirTemp("", "plumbline-prepare-")
	if err != nil {
		return fmt.Errorf("prepare the host: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	script := filepath.Join(dir, "prepare.sh")
	if err := os.WriteFile(script, ci.Prepare, 0o700); err != nil {
		return fmt.Errorf("prepare the host: %w", err)
	}
	cmd := exec.CommandContext(ctx, "bash", append([]string{script}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// What it has begun it takes back when it is told to end.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, time.Minute
	root, _ := stage.SourceRoot() // empty: of no tree
	cmd.Env = append(os.Environ(), "PLUMBLINE_REPO="+root, "PLUMBLINE_MODULE="+stage.Module())
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("prepare the host for %s: %w", cluster, err)
	}
	return nil
}

func doctor(ctx context.Context, p *printing, out io.Writer, stateDir string) error {
	options := host.Options{StateDir: stateDir, Beside: beside()}
	if dir, err := os.UserCacheDir(); err == nil {
		options.CacheDir = filepath.Join(dir, "plumbline")
	}
	cli := dockerClient(ctx)
	if cli != nil {
		defer cli.Close()
	}
	// What cannot be looked at without root or Docker has rows of its own.
	look := cleanOptions(cli, stateDir)
	live, dead, _ := host.LookAtRuns(stateDir)
	_, tests, _ := netns.Tests()
	look.Dead, look.Live = append(idsOf(dead), tests...), idsOf(live)
	objects, _ := clean.Find(ctx, look)
	for _, o := range objects {
		options.Leftovers = append(options.Leftovers, o.String())
	}
	return diagnose(host.Gather(ctx, options).Rows()).print(p, out)
}

// dockerClient is nil where no engine of this host answers: on another, other runs live.
func dockerClient(ctx context.Context) *client.Client {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil
	}
	if _, err := cli.Ping(ctx); err != nil || !strings.HasPrefix(cli.DaemonHost(), "unix://") {
		cli.Close()
		return nil
	}
	return cli
}

func cleanOptions(cli *client.Client, stateDir string) clean.Options {
	o := clean.Options{Scope: clean.Ours(), StateDir: stateDir}
	if cli != nil { // a nil *client.Client in the interface would not be nil
		o.Engine = cli
	}
	return o
}
