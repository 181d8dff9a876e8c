package proxy

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plumbline/plumbline/ci/version"
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
	cfg.UserAgent = "plumb-proxy/" + version.String()
	cfg.QPS, cfg.Burst = clientQPS, clientBurst
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", cfg.Host, err)
	}
	return client, nil
}
