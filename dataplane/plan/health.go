package plan

import (
	"net/netip"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// healthCheck counts local ready addresses over all ports (type LoadBalancer
// with external policy Local only).
func (b *builder) healthCheck() *HealthCheck {
	if b.svc.Type != objects.LoadBalancer || b.svc.External != objects.Local || b.svc.HealthCheckNodePort == 0 {
		return nil
	}
	seen := map[netip.Addr]bool{}
	hc := &HealthCheck{Port: b.svc.HealthCheckNodePort}
	for _, vip := range b.svc.ClusterIPs {
		for _, port := range b.svc.Ports {
			for _, c := range onlyLocal(b.endpoints(port, vip.Is6())) {
				if !c.state.Ready || seen[c.Addr] {
					continue
				}
				seen[c.Addr] = true
				if c.Addr.Is6() {
					hc.IPv6++
				} else {
					hc.IPv4++
				}
			}
		}
	}
	return hc
}

// NoLocal counts the ports of a Service, by family (IPv6 second), that traffic policy Local
// leaves without an endpoint though there are some elsewhere.
type NoLocal struct{ Internal, External [2]int }

// Add counts those of another, or takes them away again.
func (n *NoLocal) Add(o NoLocal, times int) {
	for i := range n.Internal {
		n.Internal[i] += times * o.Internal[i]
		n.External[i] += times * o.External[i]
	}
}

// NoLocal is that of the Service. Internal traffic is dropped for nothing else; outsiders have
// no endpoint while those inside have.
func (s Service) NoLocal() (out NoLocal) {
	seen := map[Key]bool{}
	for _, f := range s.Frontends {
		family := 0
		if f.Key.IPv6 {
			family = 1
		}
		switch {
		case f.Kind == ClusterIP && f.Outside.Action == Drop:
			out.Internal[family]++
		case f.Inside != nil && len(f.Inside.Endpoints) > 0 && len(f.Outside.Endpoints) == 0 && !seen[f.Group]:
			seen[f.Group] = true // by one of its addresses, or by its node port
			out.External[family]++
		}
	}
	return out
}
