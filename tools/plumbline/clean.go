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
	stateDir string
	host     bool
	cache    bool
	list     bool
}

func cleanCommand() *cobra.Command {
	var f cleanFlags
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove everything of plumbline's from this host",
		Long: `Remove everything of plumbline's that runs left on this host: processes,
containers, networks, volumes, namespaces, links, the guard, files. Each thing
removed is one line. Nothing else is touched: no other kind cluster, no network
named kind, no container without our label.

What prepares the host for more than one run stays: cached images and files
(--cache removes them), a dockerd that ci/host/prepare.sh started (--host).

Exit 0: nothing of ours is left. Exit 2: something is; the errors say what.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runClean(cmd.Context(), cmd.OutOrStdout(), f)
		},
	}
	cmd.Flags().StringVar(&f.stateDir, "state-dir", host.StateDir, "folder of files of a run")
	cmd.Flags().BoolVar(&f.host, "host", false, "also stop the dockerd that ci/host/prepare.sh started and remove its files")
	cmd.Flags().BoolVar(&f.cache, "cache", false, "also remove cached images and the cache folder")
	cmd.Flags().BoolVar(&f.list, "list", false, "only list what would be removed")
	return cmd
}

func runClean(ctx context.Context, out io.Writer, f cleanFlags) error {
	if os.Geteuid() != 0 {
		return errors.New("clean needs root (namespaces, nftables, Docker): run sudo plumbline clean")
	}
	cli := dockerClient(ctx)
	if cli == nil {
		fmt.Fprintln(out, "no Docker engine answers: containers, networks and volumes are not looked at")
	} else {
		defer cli.Close()
	}
	o := cleanOptions(cli, f.stateDir)
	o.Host, o.Cache = f.host, f.cache
	if dir, err := os.UserCacheDir(); err == nil {
		o.CacheDir = filepath.Join(dir, "plumbline")
	}
	if f.list {
		live, err := host.LiveRuns(f.stateDir)
		if err != nil {
			return err
		}
		if o.Live, err = leave(out, live); err != nil {
			return err
		}
		objects, err := clean.Find(ctx, o)
		for _, object := range objects {
			fmt.Fprintln(out, object)
		}
		return err
	}
	unlock, err := lockForClean(ctx, f.stateDir)
	if err != nil {
		return err
	}
	defer unlock()
	runs, err := host.OpenRegistry(ctx, f.stateDir) // until it is closed no run begins
	if err != nil {
		return err
	}
	defer runs.Close()
	if o.Live, err = leave(out, runs.Live); err != nil {
		return err
	}
	objects, findErr := clean.Find(ctx, o)
	removeErr := clean.Remove(ctx, objects, func(object clean.Object) { fmt.Fprintf(out, "removed %s\n", object) })
	if len(objects) == 0 && findErr == nil {
		fmt.Fprintln(out, "nothing of ours is here")
	}
	return errors.Join(findErr, removeErr)
}

// leave says which runs and tests go on; what is theirs stays.
func leave(out io.Writer, live []host.Found) (ids []string, err error) {
	for _, r := range live {
		fmt.Fprintf(out, "run %s goes on (process %s): left alone\n", r.ID, r.By)
		ids = append(ids, r.ID)
	}
	tests, err := netns.LiveTests()
	for _, id := range tests {
		fmt.Fprintf(out, "tests go on (%s%s-...): left alone\n", netns.Prefix, id)
	}
	return append(ids, tests...), err
}

// lockForClean waits for a run to end, and refuses while one lives. What a run
// that was killed left half done gets time to end; after that it is removed
// all the same.
func lockForClean(ctx context.Context, stateDir string) (release func(), err error) {
	lock, err := host.TakeLock(ctx, stateDir, 20*time.Second, stage.Waiting(slog.Default()))
	switch {
	case err == nil:
		return func() { lock.Release() }, nil
	case errors.Is(err, host.ErrBusy) && !host.HolderLives(stateDir):
		return func() {}, nil
	}
	return nil, err
}
