package lbprovider

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/instance"
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
	for other, m := range b.known {
		for _, a := range m.addrs {
			if _, ok := taken[a]; !ok {
				taken[a] = other
			}
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
	b.remembered(name).addrs = out
	return out, nil
}

// reserve keeps the published address of every wanted Service for it, also
// while its HAProxy is missing. One that is there has its addresses, whatever its
// Service or another one says.
func (b *balancer) reserve(wanted []*v1.Service, running []instance.Instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	holder := map[netip.Addr]string{}
	for _, i := range running {
		b.remembered(i.Name).addrs = i.Addrs
		for _, a := range i.Addrs {
			holder[a] = i.Name
		}
	}
	// Of two that publish the same, the older one has it.
	byAge := slices.SortedFunc(slices.Values(wanted), func(x, y *v1.Service) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.UID, y.UID))
	})
	for _, svc := range byAge {
		name := b.name(svc)
		m := b.remembered(name)
		if len(m.addrs) > 0 {
			continue
		}
		for _, a := range published(svc) {
			if _, ok := holder[a]; !ok {
				holder[a] = name
				m.addrs = append(m.addrs, a)
			}
		}
	}
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
