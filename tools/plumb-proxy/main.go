// Command plumb-proxy is the node agent: it watches Services, EndpointSlices and
// its own Node, and keeps the node's dataplane as they ask. Of the API it needs
// get, list and watch of those objects and of ServiceCIDRs, and create and patch
// of Events; of the node the capability NET_ADMIN in its network namespace, for
// the legacy flavour of iptables also NET_RAW, for userspace NET_BIND_SERVICE.
//
// `plumb-proxy show` asks the agent on the node what it does: see tools/internal/proxy/show.go.
// `plumb-proxy look` says who proxies Services on the node: see tools/internal/proxy/look.go.
//
// The rules stay when it exits; --cleanup removes them. --init-only does what
// needs more than NET_ADMIN (sysctls, and loading conntrack if they are not there
// before) and exits: it is for an init container. Give it the agent's
// --cluster-cidr too: IPv6 forwarding is switched on only for IPv6 pods.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/plumbline/plumbline/tools/internal/proxy"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return proxy.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, nil)
}
