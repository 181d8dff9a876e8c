package kit

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// findWithin is the node, of any kind, at whose address this program runs; empty: none.
func (e *Env) findWithin(ctx context.Context) (string, error) {
	nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("list this host's addresses: %w", err)
	}
	return within(nodes.Items, own), nil
}

// within names the first node one of whose addresses is among those of a host.
func within(nodes []corev1.Node, own []net.Addr) string {
	at := map[netip.Addr]bool{}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			at[p.Addr().Unmap()] = true
		}
	}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && at[ip.Unmap()] {
				return n.Name
			}
		}
	}
	return ""
}
