package kit

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/fixtures/podnet"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// documentation are the ranges of addresses that behaviours make up: those for
// documentation (RFC 5737, RFC 3849), which are nobody's.
var documentation = remote.Ranges{
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("2001:db8::/32"),
}

// balanced is a stage that knows where its load balancers' addresses are from.
type balanced interface{ LBRanges() []netip.Prefix }

// findRanges are all that probes connect to: Services, pods, nodes, load balancers of
// ours, and what behaviours make up.
func (e *Env) findRanges(ctx context.Context) (remote.Ranges, error) {
	out := append(remote.Ranges{}, e.cfg.Ranges...)
	add := func(cidr, of string) error {
		r, err := remote.ParseRanges(cidr)
		if err != nil {
			return fmt.Errorf("read the range of %s: %w", of, err)
		}
		out = append(out, r...)
		return nil
	}
	services, err := e.client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) { // then the user may tell
		return nil, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	if err == nil {
		for _, s := range services.Items {
			for _, cidr := range s.Spec.CIDRs {
				if err := add(cidr, "ServiceCIDR "+s.Name); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := e.containsServices(ctx, out, err); err != nil {
		return nil, err
	}
	nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		cidrs, err := podnet.CIDRs(&n)
		if err != nil {
			return nil, err
		}
		for _, cidr := range cidrs {
			if err := add(cidr.String(), "pods of node "+n.Name); err != nil {
				return nil, err
			}
		}
		for _, a := range n.Status.Addresses {
			if a.Type != corev1.NodeInternalIP {
				continue
			}
			if err := add(a.Address, "node "+n.Name); err != nil {
				return nil, err
			}
		}
	}
	if s, ok := e.stage.(balanced); ok {
		out = append(out, s.LBRanges()...)
	}
	return append(out, documentation...), nil
}

// containsServices makes sure that ranges contain the Service that every cluster has. why
// says what kept the API from telling them, if anything did.
func (e *Env) containsServices(ctx context.Context, ranges remote.Ranges, why error) error {
	s, err := e.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Service default/kubernetes: %w", err)
	}
	for _, text := range s.Spec.ClusterIPs {
		a, err := netip.ParseAddr(text)
		if err == nil && !ranges.Contain(a) {
			err = fmt.Errorf("the cluster does not tell where Services get their addresses (ServiceCIDR, Kubernetes 1.33): %s is one; give --probe-ranges their range", a)
			if why != nil {
				err = fmt.Errorf("%w (%w)", err, why)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
