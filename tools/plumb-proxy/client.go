package main

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// The agent's limits towards the API server: it lists and watches, and writes
// now and then an Event.
const (
	clientQPS   = 20
	clientBurst = 40
)

// apiName is one for which the certificate of every cluster's API is.
const apiName = "kubernetes.default.svc"

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := rest.InClusterConfig()
	if kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	if kubeconfig == "" { // the address is a server's own, for which its certificate need not be
		cfg.TLSClientConfig.ServerName = apiName
	}
	cfg.UserAgent = "plumb-proxy/" + version
	cfg.QPS, cfg.Burst = clientQPS, clientBurst
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", cfg.Host, err)
	}
	return client, nil
}

// serviceEvents writes Events about Services.
type serviceEvents struct{ record.EventRecorder }

func (e serviceEvents) Warn(service objects.Name, reason, text string) {
	about := &corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: service.Namespace, Name: service.Name}
	e.Event(about, corev1.EventTypeWarning, reason, text)
}

// bindable turns [::] into 0.0.0.0 on a host without IPv6. Both mean everything.
func bindable(ctx context.Context, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "::" {
		return addr
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp6", "[::]:0")
	if err != nil {
		return net.JoinHostPort("0.0.0.0", port)
	}
	_ = ln.Close()
	return addr
}
