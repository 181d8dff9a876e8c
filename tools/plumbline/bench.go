package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/nodeimage"
	"github.com/plumbline/plumbline/fixtures/userns"
	"github.com/plumbline/plumbline/suites/bench"
	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/stage"
)

// benchLockPatience is how long another run may take to leave the host.
const benchLockPatience = 20 * time.Second

func benchCommand() *cobra.Command {
	var rows string
	var cfg bench.Config
	p := printing{more: []string{asMarkdown}}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what Services cost a node, by dataplane and number of Services",
		Long: "Measure cold start, first packets, single changes and warm restarts of own dataplanes and of\n" +
			"upstream kube-proxy on one feed in network namespaces, side by side.",
		Example: "  sudo plumbline bench --rows=plumb-nftables,kube-proxy:nftables --services=1000,10000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg.Logger = slog.Default()
			if cfg.Rows, err = bench.ParseRows(rows); err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			build := func() error { return findKubeProxy(cmd.Context(), &cfg) }
			if err := userns.Enter(cmd.Context(), build); err != nil {
				return err
			}
			cfg.Lacks = stage.Lacks()
			return runBench(cmd, cfg, &p)
		},
	}
	p.flag(cmd)
	cfg.LeastMemory = 2 << 30
	f := cmd.Flags()
	f.StringVar(&rows, "rows", bench.RowNames(), "dataplanes to measure, in order")
	f.IntSliceVar(&cfg.Sizes, "services", []int{1000, 5000, 10000, 44000}, "numbers of Services, each with 10 endpoints, ascending")
	f.IntVar(&cfg.Changes, "changes", 200, "endpoints replaced one at a time, per size")
	f.DurationVar(&cfg.Steady, "steady", time.Minute, "for so long 200 endpoints a second are replaced, per size; 0s leaves it out")
	f.IntSliceVar(&cfg.Endpoints, "endpoints", []int{1000, 5000}, "big Services: so many endpoints, of which --changes are replaced, one at a time; 0 leaves it out")
	f.IntVar(&cfg.Flows, "flows", 100_000, "UDP flows through Services that the node remembers meanwhile; 0 leaves it out")
	f.DurationVar(&cfg.Rates, "rates", 2*time.Second, "for so long each row is sent connections as fast as they go, from the client and from the node, and as long past it; 0s leaves it out")
	f.IntVar(&cfg.Switches, "switches", 50, "Services whose only endpoint is replaced, per size")
	f.IntVar(&cfg.Restarts, "restarts", 5, "warm restarts under load, per size, after one without")
	f.IntVar(&cfg.Connections, "connections", 200_000, "connections opened around the restarts of a size, at least")
	f.DurationVar(&cfg.Limit, "limit", 5*time.Minute, "what takes longer is ended and reported as that, each step")
	f.BoolVar(&cfg.Beyond, "beyond-bounds", false, "also more than 10000 Services of kube-proxy's nftables mode and 2000 of its iptables mode, which have taken machines down")
	f.StringVar(&cfg.Dir, "results", "results/bench", "directory for tables and the processes' logs")
	completeList(cmd, "rows", strings.Split(bench.RowNames(), ",")...)
	return cmd
}

// findKubeProxy builds kube-proxy, if a row wants it.
func findKubeProxy(ctx context.Context, cfg *bench.Config) (err error) {
	if !slices.ContainsFunc(cfg.Rows, func(r bench.Row) bool { return !r.Own() }) {
		return nil
	}
	cfg.KubeProxy, err = stage.KubernetesBinary(ctx, "kube-proxy", slog.Default())
	if errors.Is(err, nodeimage.ErrNoGo) {
		cfg.NoKubeProxy, err = err.Error(), nil
	}
	return err
}

func runBench(cmd *cobra.Command, cfg bench.Config, p *printing) (err error) {
	ctx := cmd.Context()
	lock, err := host.TakeLock(ctx, stage.StateDir, benchLockPatience, stage.Waiting(slog.Default()))
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := findKubeProxy(ctx, &cfg); err != nil {
		return err
	}
	// Configurations and pid files are where clean looks for them.
	run, err := host.BeginRun(ctx, stage.StateDir, "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.EndRun(context.WithoutCancel(ctx), run)) }()
	if err := run.Private(); err != nil { // the agents outlive one that is killed
		return err
	}
	if cfg.PlumbProxy, err = stage.Program(run, "plumb-proxy"); err != nil {
		return err
	}
	cfg.Work = run.Dir
	results, err := bench.Run(ctx, cfg)
	if err := errors.Join(err, printBench(p, results, cfg.Lacks)); err != nil {
		return err
	}
	if !p.data() {
		fmt.Printf("\nresults: %s\n", cfg.Dir)
	}
	return nil
}

func printBench(p *printing, results []bench.Result, lacks string) error {
	if p.as == asMarkdown {
		fmt.Print(bench.Markdown(results, lacks))
		return nil
	}
	cells := bench.Cells(results, p.wide())
	if !p.wide() {
		cells = render.Fit(cells, width(os.Stdout))
	}
	if err := p.print(os.Stdout, bench.NewData(results, lacks), cells); err != nil {
		return err
	}
	if p.data() {
		return nil
	}
	var b bytes.Buffer
	for _, line := range bench.Ends(results) {
		render.Wrap(&b, line, width(os.Stdout), "  ")
	}
	if lacks != "" {
		render.Wrap(&b, "lacks: "+lacks, width(os.Stdout), "  ")
	}
	if _, err := os.Stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print what ended: %w", err)
	}
	return nil
}
