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
