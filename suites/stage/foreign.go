package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/plumbline/plumbline/fixtures/existing"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/run"
)

// Foreign says what is known of an existing cluster.
type Foreign struct {
	Kubeconfig string // or existing.InCluster: the service account of the pod that this runs in
	LB         string // ours, cluster or none
	EchoImage  string // of the workload; the nodes have it or can pull it
	ProbeImage string // of plumb-probe, for conformance
	ProxyImage string // of plumb-proxy, for rows that install it
	Beside     bool   // install a dataplane also where another proxies Services
	// ProbeRanges are CIDRs that probes may connect into besides those that the API
	// tells; see Ranges.
	ProbeRanges string
}

// loopbackLBs are the addresses of our load balancers for an existing cluster: on this
// host and reachable from it alone, so that nobody's network is touched. Each run has
// some of its own.
func loopbackLBs(number int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 76, byte(number), 0}), 24)
}

// EnterExisting checks what is asked for, takes away what runs of the same name have left
// on this host that live no more, and begins the run. From then on it is called by its id.
func EnterExisting(ctx context.Context, o *Options, log *slog.Logger) error {
	if err := o.Foreign.check(o.Rows); err != nil {
		return err
	}
	if err := o.settleFamily(ctx, log); err != nil {
		return err
	}
	if o.Foreign.LB == string(run.OurLB) && os.Geteuid() != 0 {
		return errors.New("--lb=ours needs root: HAProxy runs as a user of its own, and takes ports below 1024")
	}
	state, err := host.UserStateDir()
	if err != nil {
		return err
	}
	if o.dead, err = removeDead(ctx, state, o.Name, nil, log); err != nil {
		return err
	}
	if o.run, err = host.BeginRun(ctx, state, o.Name); err != nil {
		return err
	}
	o.Name = o.run.ID
	return nil
}

func (f Foreign) check(rows []row.Row) error {
	switch {
	case f.Kubeconfig == "":
		return errors.New("--cluster=existing needs --kubeconfig: a file, or in-cluster in a pod of the cluster")
	case f.Kubeconfig == existing.InCluster && f.LB == string(run.OurLB):
		return errors.New("--lb=ours needs a file as --kubeconfig")
	case f.EchoImage == "":
		return errors.New("--cluster=existing needs --echo-image: an image of plumb-echo that the nodes have or can pull")
	}
	if err := checkLB(f.LB); err != nil {
		return err
	}
	if _, err := f.Ranges(); err != nil {
		return err
	}
	for _, r := range rows {
		if err := checkRow(r); err != nil {
			return err
		}
		if r.Own() && f.ProxyImage == "" {
			return fmt.Errorf("row %s on an existing cluster needs --proxy-image: an image of plumb-proxy that the nodes have or can pull", r)
		}
	}
	return nil
}

func checkLB(lb string) error {
	if lb != string(run.OurLB) && lb != string(run.ClusterLB) && lb != string(run.NoLB) {
		return fmt.Errorf("unknown --lb %q; known: ours, cluster, none", lb)
	}
	return nil
}

func checkRow(r row.Row) error {
	if r.Dataplane == row.Upstream {
		return fmt.Errorf("row %s: on an existing cluster kube-proxy is either there (row existing) or comes from a manifest (row manifest:FILE)", r)
	}
	return nil
}

// Ranges are those of ProbeRanges.
func (f Foreign) Ranges() (remote.Ranges, error) {
	r, err := remote.ParseRanges(f.ProbeRanges)
	if err != nil {
		return nil, fmt.Errorf("--probe-ranges %s: %w", f.ProbeRanges, err)
	}
	return r, nil
}

// settleFamily takes the cluster's IP family, where its Services have but one.
func (o *Options) settleFamily(ctx context.Context, log *slog.Logger) error {
	c, err := existing.Open(o.Foreign.Kubeconfig)
	if err != nil {
		return err
	}
	has, err := c.IPFamilies(ctx)
	if err != nil {
		log.Warn("the cluster does not say which IP families it has", "taken", o.IPFamily, "error", err)
		return nil
	}
	if len(has) != 1 || strings.EqualFold(string(has[0]), o.IPFamily) {
		return nil
	}
	log.Info("the cluster's Services have one IP family", "taken", has[0], "not", o.IPFamily)
	o.IPFamily = strings.ToLower(string(has[0]))
	return nil
}
