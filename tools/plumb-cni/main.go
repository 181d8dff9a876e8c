// Plumb-cni is the pod network of nodes built by Plumbline: it writes a ptp
// configuration for its node's pod CIDRs, keeps a route to every other node's
// pod CIDRs and masquerades pod traffic that leaves the cluster. It knows
// nothing of Services.
package main

import (
	"context"
	"errors"
	"fmt"
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
)

const confPath = "/etc/cni/net.d/10-plumbline.conflist"

func main() { os.Exit(run()) }

func run() int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := agent(ctx, log); err != nil {
		log.Error("pod network stopped", "error", err)
		return 1
	}
	return 0
}

// agent applies the whole state on every change of a Node, until ctx ends.
func agent(ctx context.Context, log *slog.Logger) error {
	self := os.Getenv("NODE_NAME")
	if self == "" {
		return errors.New("NODE_NAME is not set")
	}
	subnets, err := parsePrefixes(strings.Split(os.Getenv("POD_SUBNET"), ","))
	if err != nil {
		return fmt.Errorf("read POD_SUBNET: %w", err)
	}
	client, err := newClient(os.Getenv("CONTROL_PLANE_ENDPOINT"))
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
	net := network{subnets: subnets, log: log}
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
		if err := net.apply(self, list); err != nil {
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
		if _, _, err := net.SplitHostPort(endpoint); err != nil {
			return nil, fmt.Errorf("read CONTROL_PLANE_ENDPOINT: %w", err)
		}
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
