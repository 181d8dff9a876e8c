package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/host/clean"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/suites/stage"
)

type cleanFlags struct {
	stateDir string                                  // host.StateDir, but in tests
	tests    func() (live, dead []string, err error) // netns.Tests, but in tests
	host     bool
	cache    bool
	dryRun   bool

	kubeconfig string // then a cluster is cleaned, not this host
	run        string
}

func cleanCommand() *cobra.Command {
	f := cleanFlags{stateDir: host.StateDir, tests: netns.Tests}
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove everything of plumbline's from this host",
		Long: `Remove everything of plumbline's that runs left on this host: processes,
containers, namespaces, files; and, while no run on kind goes on, what those share:
kind clusters and load balancers on our Docker network, that network, the guard. Each thing removed is
one line.

Of a run that has ended, what carries its id is ours: in the value of a label, in
a name. Of what runs share, our network by its name and label, and nodes and load
balancers by their being on it. Nothing else is touched, whatever it is called: no other cluster,
network or container, and no file in our folder that is not ours.
What a run uses that goes on stays, and clean says so.

With --kubeconfig it does the same in a cluster on which runs with
--cluster=existing were killed. A run is dead there when its Lease has expired; what
it has left is known by its id: in the value of a label, in the names of its
namespaces.

What prepares the host for more than one run stays: cached images and files
(--cache removes them), a dockerd that ci/host/prepare.sh started (--host).

Exit 0: nothing of ours is left but what runs use that go on.
Exit 2: something is; the errors say what.`,
		Example: "  sudo plumbline clean --dry-run\n  plumbline clean --kubeconfig=$HOME/.kube/config",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.kubeconfig != "":
				return cleanCluster(cmd.Context(), cmd.OutOrStdout(), f)
			case f.run != "":
				return errors.New("--run goes with --kubeconfig: on this host dead runs are known by their locks")
			}
			return runClean(cmd.Context(), cmd.OutOrStdout(), f)
		},
	}
	cmd.Flags().BoolVar(&f.host, "host", false, "also stop the dockerd that ci/host/prepare.sh started and remove its files")
	cmd.Flags().BoolVar(&f.cache, "cache", false, "also remove cached images and the cache folder")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be removed")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "instead of this host, clean the cluster that this `file` says how to reach")
	cmd.Flags().StringVar(&f.run, "run", "", "with --kubeconfig: only this run, by its id, also if it may go on")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "host")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "cache")
	return cmd
}

func runClean(ctx context.Context, out io.Writer, f cleanFlags) error {
	if os.Geteuid() != 0 {
		return errors.New("clean needs root (namespaces, nftables, Docker): run sudo plumbline clean")
	}
	cli := dockerClient(ctx)
	if cli == nil {
		fmt.Fprintln(out, "no Docker engine of this host answers: containers and networks are not looked at")
	} else {
		defer cli.Close()
	}
	o := cleanOptions(cli, f.stateDir)
	o.Host, o.Cache = f.host, f.cache
	if dir, err := os.UserCacheDir(); err == nil {
		o.CacheDir = filepath.Join(dir, "plumbline")
	}
	if f.dryRun {
		live, dead, err := host.LookAtRuns(f.stateDir)
		if err != nil {
			return err
		}
		objects, err := f.findLeft(ctx, out, o, live, dead, host.Holder(f.stateDir))
		for _, object := range objects {
			fmt.Fprintln(out, object)
		}
		return err
	}
	unlock, user, err := lockForClean(ctx, f.stateDir)
	if err != nil {
		return err
	}
	defer unlock()
	if user != "" && (f.host || f.cache) {
		return fmt.Errorf("--host and --cache take away what a run uses that goes on (process %s); wait for it to end", user)
	}
	runs, err := host.OpenRegistry(ctx, f.stateDir) // until it is closed no run begins
	if err != nil {
		return err
	}
	defer runs.Close()
	objects, findErr := f.findLeft(ctx, out, o, runs.Live, runs.Dead, user)
	removeErr := clean.Remove(ctx, objects, func(object clean.Object) { fmt.Fprintf(out, "removed %s\n", object) })
	if len(objects) == 0 && findErr == nil {
		fmt.Fprintln(out, "nothing of ours is here")
	}
	return errors.Join(findErr, removeErr)
}

// findLeft finds what no run uses that goes on, and says which do. A user is the process
// that has what runs share; then only what carries the id of a dead run is nobody's.
func (f cleanFlags) findLeft(ctx context.Context, out io.Writer, o clean.Options, live, dead []host.Found, user string) ([]clean.Object, error) {
	for _, r := range live {
		fmt.Fprintf(out, "run %s goes on (process %s): left alone\n", r.ID, r.By)
	}
	tests, ended, err := f.tests()
	if err != nil {
		return nil, err
	}
	for _, id := range tests {
		fmt.Fprintf(out, "tests go on (%s%s-...): left alone\n", netns.Prefix, id)
	}
	o.Dead, o.Live = append(idsOf(dead), ended...), append(idsOf(live), tests...)
	if user == "" {
		return clean.Find(ctx, o)
	}
	fmt.Fprintf(out, "a run goes on (process %s): what runs share, on kind and in the guard, left alone\n", user)
	return clean.FindDead(ctx, o)
}

func idsOf(runs []host.Found) (ids []string) {
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// lockForClean takes the lock of what runs share, or says which process has it that
// lives. What a run that was killed left half done gets time to end; after that it is
// removed all the same.
func lockForClean(ctx context.Context, stateDir string) (release func(), user string, err error) {
	nothing := func() {}
	if user = host.Holder(stateDir); user != "" {
		return nothing, user, nil
	}
	lock, err := host.TakeLock(ctx, stateDir, 20*time.Second, stage.Waiting(slog.Default()))
	switch {
	case err == nil:
		return func() { lock.Release() }, "", nil
	case errors.Is(err, host.ErrBusy):
		return nothing, host.Holder(stateDir), nil // of one that began meanwhile, or none
	}
	return nil, "", err
}
