package balancer

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// pool is what the load balancers of a fleet share: who has which address.
type pool struct {
	instances Instances
	ranges    map[lbplan.Family]netip.Prefix

	mu       sync.Mutex // guards reserved; nobody outside this process is asked with it held
	reserved map[string][]netip.Addr
}

func newPool(i Instances, ranges map[lbplan.Family]netip.Prefix) *pool {
	return &pool{instances: i, ranges: ranges, reserved: map[string][]netip.Addr{}}
}

// claim is what a load balancer would like to have.
type claim struct {
	name  string
	addrs []netip.Addr
}

// reserve chooses one address per family, in the order of lb, and keeps them for name
// against others that are planned at the same time: until release. What is no load
// balancer of ours and comes while this looks is not seen.
func (p *pool) reserve(ctx context.Context, name, key string, lb lbplan.LB, recorded, published []netip.Addr) ([]netip.Addr, error) {
	taken, err := p.instances.Taken(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, addrs := range p.reserved {
		for _, a := range addrs {
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
		rng, ok := p.ranges[f]
		if !ok {
			return nil, &lbplan.Refusal{Reason: fmt.Sprintf("no load-balancer addresses of IP family %s on this network", f)}
		}
		req := lbplan.AddressRequest{Key: key, Recorded: ofFamily(recorded, f), Published: ofFamily(published, f)}
		if lb.Pinned.IsValid() && lbplan.FamilyOf(lb.Pinned) == f {
			req.Pinned = lb.Pinned
		}
		a, err := lbplan.ChooseAddress(req, rng, taken)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	p.reserved[name] = out
	return out, nil
}

// keep reserves what is published for who claims it, also while his HAProxy is missing.
// Those that run have their addresses, whatever their Service or another one says; of two
// that claim the same, the first has it.
func (p *pool) keep(running map[string][]netip.Addr, claims []claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	holder := map[netip.Addr]string{}
	for name, addrs := range running {
		p.reserved[name] = addrs
		for _, a := range addrs {
			holder[a] = name
		}
	}
	for _, c := range claims {
		if len(p.reserved[c.name]) > 0 {
			continue
		}
		for _, a := range c.addrs {
			if _, ok := holder[a]; !ok {
				holder[a] = c.name
				p.reserved[c.name] = append(p.reserved[c.name], a)
			}
		}
	}
}

// of are the addresses reserved for name.
func (p *pool) of(name string) []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reserved[name]
}

func (p *pool) release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reserved, name)
}

func byAge(x, y *v1.Service) int {
	return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.UID, y.UID))
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
