package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/existing"
)

// cleanCluster removes what dead runs have left in a cluster, or the run that is named.
func cleanCluster(ctx context.Context, out io.Writer, f cleanFlags) error {
	c, err := existing.Open(f.kubeconfig)
	if err != nil {
		return err
	}
	live, dead, err := c.Runs(ctx)
	if err != nil {
		return err
	}
	if f.run != "" {
		id := cluster.Run(f.run)
		if !slices.Contains(live, id) && !slices.Contains(dead, id) {
			return fmt.Errorf("cluster %s has no run %s; it has: %v", c.Name(), id, append(live, dead...))
		}
		live, dead = nil, []cluster.Run{id}
	}
	for _, id := range live {
		fmt.Fprintf(out, "run %s goes on: left alone\n", id)
	}
	var errs []error
	for _, id := range dead {
		errs = append(errs, cleanRun(ctx, out, c, id, f.dryRun))
	}
	if len(dead) == 0 {
		fmt.Fprintln(out, "no dead run is here")
	}
	return errors.Join(errs...)
}

// cleanRun removes what a run has in a cluster, and says what that was.
func cleanRun(ctx context.Context, out io.Writer, c *existing.Cluster, id cluster.Run, dryRun bool) error {
	found, err := c.Find(ctx, id)
	did := "removed "
	if dryRun {
		did = ""
	} else if err == nil {
		err = c.Remove(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("remove what run %s left: %w", id, err)
	}
	for _, what := range found {
		fmt.Fprintf(out, "%s%s (run %s)\n", did, what, id)
	}
	return nil
}
