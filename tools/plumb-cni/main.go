// Plumb-cni is the pod network of nodes built by Plumbline: it writes a ptp
// configuration for its node's pod CIDRs, keeps a route to every other node's
// pod CIDRs and masquerades pod traffic that leaves the cluster. It knows
// nothing of Services. Of a Node with the label plumbline.io/pod-addresses=elsewhere
// pods have addresses that are not of its podCIDRs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/plumbline/plumbline/tools/internal/call"
)

const confPath = "/etc/cni/net.d/10-plumbline.conflist"

const usage = `plumb-cni

Runs on each node, in a Pod with the host's network, until SIGTERM. It is told by
the environment:
  NODE_NAME               name of the own Node
  POD_SUBNET              CIDRs of all pods, such as 10.244.0.0/16,fd00:10:244::/56
  CONTROL_PLANE_ENDPOINT  ADDRESS:PORT of the API server (default: that of the Pod's account)`

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	s, err := read(args, getenv)
	if err != nil {
		return call.Exit("plumb-cni", err, stdout, stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if err := s.agent(ctx, log); err != nil {
		log.Error("pod network stopped", "error", err)
		return call.Failed
	}
	return call.OK
}

// settings are what it is told.
type settings struct {
	node     string
	subnets  []netip.Prefix
	endpoint string // of the control plane
}

func read(args []string, getenv func(string) string) (s settings, err error) {
	fs := call.Flags("plumb-cni")
	if err := call.Parse(fs, usage, args); err != nil {
		return s, err
	}
	if fs.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q; the environment tells it all, see plumb-cni --help", fs.Arg(0))
	}
	if s.node = getenv("NODE_NAME"); s.node == "" {
		return s, errors.New("NODE_NAME is not set")
	}
	if s.subnets, err = parsePrefixes(strings.Split(getenv("POD_SUBNET"), ",")); err != nil {
		return s, fmt.Errorf("read POD_SUBNET: %w", err)
	}
	if s.endpoint = getenv("CONTROL_PLANE_ENDPOINT"); s.endpoint != "" {
		if _, _, err := net.SplitHostPort(s.endpoint); err != nil {
			return s, fmt.Errorf("read CONTROL_PLANE_ENDPOINT: %w", err)
		}
	}
	return s, nil
}

// agent applies the whole state on every change of a Node, until ctx ends.
func (s settings) agent(ctx context.Context, log *slog.Logger) error {
	client, err := newClient(s.endpoint)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err = nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return nil
	}
	net := network{subnets: s.subnets, log: log}
	retry := time.NewTimer(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry.C:
		}
		var list []*corev1.Node
		for _, o := range nodes.Informer().GetStore().List() {
			list = append(list, o.(*corev1.Node))
		}
		if err := net.apply(s.node, list); err != nil {
			log.Warn("pod network incomplete, will retry", "error", err)
			retry.Reset(time.Second)
		}
	}
}

// newClient speaks to the control plane's own address: the kubernetes Service
// is reachable only through a dataplane, and there may be none.
func newClient(endpoint string) (*kubernetes.Clientset, error) {
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("read the service account: %w", err)
	}
	if endpoint != "" {
		cfg.Host = "https://" + endpoint
	}
	return kubernetes.NewForConfig(cfg)
}

func parsePrefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(t))
		if err != nil {
			return nil, err
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
