package lbprovider

import (
	"context"
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// addresses chooses one address per family, in the Service's order, and
// reserves them against a Service that is planned at the same time.
func (b *balancer) addresses(ctx context.Context, svc *v1.Service, lb lbplan.LB, name string, recorded []netip.Addr) ([]netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken, err := b.Instances.Taken(ctx)
	if err != nil {
		return nil, err
	}
	for other, addrs := range b.reserved {
		for _, a := range addrs {
			taken[a] = other
		}
	}
	for a, who := range taken {
		if who == name {
			delete(taken, a)
		}
	}
	var out []netip.Addr
	for _, f := range lb.Families {
		rng, ok := b.Ranges[f]
		if !ok {
			return nil, &lbplan.Refusal{Reason: fmt.Sprintf("no load-balancer addresses of IP family %s on this network", f)}
		}
		req := lbplan.AddressRequest{
			Key:       b.Cluster + "/" + lb.Service,
			Recorded:  ofFamily(recorded, f),
			Published: ofFamily(published(svc), f),
		}
		if lb.Pinned.IsValid() && lbplan.FamilyOf(lb.Pinned) == f {
			req.Pinned = lb.Pinned
		}
		a, err := lbplan.ChooseAddress(req, rng, taken)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	b.reserved[name] = out
	return out, nil
}

func published(svc *v1.Service) []netip.Addr {
	var out []netip.Addr
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(in.IP); err == nil {
			out = append(out, a)
		}
	}
	return out
}

func ofFamily(addrs []netip.Addr, f lbplan.Family) netip.Addr {
	for _, a := range addrs {
		if lbplan.FamilyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}
