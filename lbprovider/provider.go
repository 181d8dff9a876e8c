// Package lbprovider is a cloud provider for clusters on one host: it gives
// each Service of type LoadBalancer an HAProxy of its own and an address that
// stays.
//
//	EnsureLoadBalancer -> lbplan.Build -> lbplan.ChooseAddress
//	                   -> haproxy.Change -> socket commands, a reload, or balancer.Instances.Start
//
// The service controller of k8s.io/cloud-provider drives it; Events, the
// finalizer, retries and the choice of nodes are that controller's. The package
// itself is an adapter without decisions: these are balancer's.
//
// What this process has to know it can find again: the address of a load
// balancer is in its instance's labels and in the Service's status, what it runs
// is asked of its socket. So it may be killed at any point; load balancers go on
// without it. (Two waits begin anew then: that of Profile.Drain, and for the first
// result of another kind of check.)
//
// A Service that cannot be served as it is written (UDP, no nodePorts, a taken
// address …) is refused whole: what ran for it is taken down, its status is
// cleared, and the reason goes into the controller's SyncLoadBalancerFailed
// Event. An outage of the API, or of Docker, is no refusal: what runs, runs on.
package lbprovider

import (
	"context"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/plumbline/plumbline/lbprovider/balancer"
)

// Name is the provider's name.
const Name = "kind"

// Provider implements cloudprovider.Interface with LoadBalancer alone. Safe for
// concurrent use.
type Provider struct {
	fleet *balancer.Fleet
}

var (
	_ cloudprovider.Interface    = (*Provider)(nil)
	_ cloudprovider.LoadBalancer = (*Provider)(nil)
)

// New returns a provider of the fleet's load balancers.
func New(f *balancer.Fleet) *Provider { return &Provider{fleet: f} }

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (p *Provider) GetLoadBalancerName(_ context.Context, _ string, svc *v1.Service) string {
	return p.fleet.Of(svc).Name()
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (p *Provider) GetLoadBalancer(ctx context.Context, _ string, svc *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	addrs, exists, err := p.fleet.Of(svc).Addresses(ctx, svc)
	if err != nil || !exists {
		return nil, false, err
	}
	return status(svc, addrs), true, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer. It returns after
// the first round of health checks.
func (p *Provider) EnsureLoadBalancer(ctx context.Context, _ string, svc *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	addrs, err := p.fleet.Of(svc).Ensure(ctx, svc, nodes)
	if err != nil {
		return nil, err
	}
	return status(svc, addrs), nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. A Service without
// a load balancer (it was refused) stays without. That is an error, because
// the controller makes an Event "UpdatedLoadBalancer" of a nil; as
// GetLoadBalancer says that there is none, it makes no Event of the error.
func (p *Provider) UpdateLoadBalancer(ctx context.Context, _ string, svc *v1.Service, nodes []*v1.Node) error {
	return p.fleet.Of(svc).Update(ctx, svc, nodes)
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (p *Provider) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *v1.Service) error {
	return p.fleet.Of(svc).Remove(ctx)
}

// status publishes addrs with ipMode Proxy: HAProxy ends the client's
// connection, so a dataplane must not short-circuit the address (KEP-1860).
func status(svc *v1.Service, addrs []netip.Addr) *v1.LoadBalancerStatus {
	mode := v1.LoadBalancerIPModeProxy
	var ports []v1.PortStatus
	for _, p := range svc.Spec.Ports {
		ports = append(ports, v1.PortStatus{Port: p.Port, Protocol: v1.ProtocolTCP})
	}
	s := &v1.LoadBalancerStatus{}
	for _, a := range addrs {
		s.Ingress = append(s.Ingress, v1.LoadBalancerIngress{IP: a.String(), IPMode: &mode, Ports: ports})
	}
	return s
}

// Initialize implements cloudprovider.Interface; there is nothing to start.
func (p *Provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface.
func (p *Provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return p, true }

// InstancesV2 implements cloudprovider.Interface.
func (p *Provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Instances implements cloudprovider.Interface.
func (p *Provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface.
func (p *Provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (p *Provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (p *Provider) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName implements cloudprovider.Interface.
func (p *Provider) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface.
func (p *Provider) HasClusterID() bool { return true }
