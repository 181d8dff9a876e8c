package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/image"
	"github.com/plumbline/plumbline/fixtures/kind"
	"github.com/plumbline/plumbline/suites/stage"
)

func clusterCommand() *cobra.Command {
	return asksFor(&cobra.Command{Use: "cluster", Short: "Clusters of containers, without a Service dataplane", Example: "  sudo plumbline cluster up"},
		clusterUpCommand(), clusterDownCommand(), clusterListCommand())
}

func clusterUpCommand() *cobra.Command {
	cfg := kind.Config{Dir: stage.StateDir}
	cmd := &cobra.Command{
		Use:   "up [NAME]",
		Short: "Bring a cluster up; prints the path of its kubeconfig",
		Example: `  export KUBECONFIG=$(sudo plumbline cluster up)
  kubectl get nodes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Name = clusterName(args)
			if err := cfg.Validate(); err != nil {
				return err
			}
			images, err := stage.NewImages(cmd.Context(), os.Stderr, slog.Default())
			if err != nil {
				return err
			}
			fixture, err := kind.New(images.Engine(), slog.Default())
			if err != nil {
				return err
			}
			// To build an image takes minutes: the lock comes before.
			return locked(cmd.Context(), func() (err error) {
				if cfg.NodeImage, err = images.Node(cmd.Context(), cfg.NodeImage); err != nil {
					return err
				}
				if _, err := fixture.Up(cmd.Context(), cfg); err != nil {
					return err
				}
				fmt.Println(cfg.Kubeconfig())
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&cfg.Workers, "workers", 2, "worker nodes beside the one control plane")
	cmd.Flags().StringVar(&cfg.IPFamily, "ip-family", "ipv4", "ipv4, ipv6 or dual")
	completeOne(cmd, "ip-family", "ipv4", "ipv6", "dual")
	cmd.Flags().StringVar(&cfg.Subnet, "subnet", "", "IPv4 `network` (/16) of the clusters' Docker network (default: the first of 172.28.0.0/16 and four more that nothing on this host uses)")
	cmd.Flags().StringVar(&cfg.NodeImage, "node-image", "", "a kind node image to use instead of the pinned one")
	return cmd
}

func clusterDownCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "down [NAME]",
		Short:   "Remove a cluster; with the last one also the network and the guard",
		Example: "  sudo plumbline cluster down",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names, err := clusters(cmd.Context())
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			fixture, err := openFixture(cmd.Context())
			if err != nil {
				return err
			}
			cfg := kind.Config{Name: clusterName(args), Workers: 1, IPFamily: "ipv4", Dir: stage.StateDir}
			if err := cfg.Validate(); err != nil {
				return err
			}
			return locked(cmd.Context(), func() error { return fixture.Down(cmd.Context(), cfg) })
		},
	}
}

// listedCluster is a cluster that is up.
type listedCluster struct {
	Name       string `json:"name"`
	Kubeconfig string `json:"kubeconfig"` // path
}

func clusterListCommand() *cobra.Command {
	var p printing
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the clusters of the harness",
		Example: "  plumbline cluster list\n  plumbline cluster list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := clusters(cmd.Context())
			if err != nil {
				return err
			}
			all, rows := []listedCluster{}, [][]string{{"NAME", "KUBECONFIG"}}
			for _, n := range names {
				c := listedCluster{n, kind.Config{Name: n, Dir: stage.StateDir}.Kubeconfig()}
				all, rows = append(all, c), append(rows, []string{c.Name, c.Kubeconfig})
			}
			return p.print(os.Stdout, all, rows)
		},
	}
	p.flag(cmd)
	return cmd
}

// locked runs f while no other run makes or removes anything.
func locked(ctx context.Context, f func() error) error {
	lock, err := host.TakeLock(ctx, stage.StateDir, 20*time.Second, stage.Waiting(slog.Default()))
	if err != nil {
		return err
	}
	return errors.Join(f(), lock.Release())
}

// openFixture is for clusters that there are: it takes Docker's engine alone.
func openFixture(ctx context.Context) (*kind.Fixture, error) {
	engine, err := image.NewEngine(ctx, os.Stderr, slog.Default())
	if err != nil {
		return nil, err
	}
	return kind.New(engine, slog.Default())
}

// clusters are the names of those that there are.
func clusters(ctx context.Context) ([]string, error) {
	fixture, err := openFixture(ctx)
	if err != nil {
		return nil, err
	}
	return fixture.List(ctx)
}

func clusterName(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return kind.Prefix
}
