// Package lbprovider is a cloud provider for clusters on one host: it gives
// each Service of type LoadBalancer an HAProxy of its own and an address that
// stays.
//
//	EnsureLoadBalancer -> lbplan.Build -> lbplan.ChooseAddress
//	                   -> haproxy.Change -> socket commands, a reload, or instances.Start
//
// The service controller of k8s.io/cloud-provider drives it; Events, the
// finalizer, retries and the choice of nodes are that controller's.
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
	"errors"
	"log/slog"
	"net/netip"
	"sync"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/profile"
)

// Name is the provider's name.
const Name = "kind"

// instances runs the HAProxy processes: containers on kind, else processes.
type instances interface {
	List(ctx context.Context) ([]instance.Instance, error)
	Matches(i instance.Instance, s instance.Spec) bool
	Start(ctx context.Context, s instance.Spec) error
	Stop(ctx context.Context, name string) error
	Taken(ctx context.Context) (map[netip.Addr]string, error)
}

// Config is what a Provider needs. Constant after New.
type Config struct {
	Cluster  string
	Ranges   map[lbplan.Family]netip.Prefix // one per family that can be served
	Profile  profile.Profile
	StateDir string // of this cluster; one directory per load balancer below it
	// HAProxyDir is where every HAProxy sees its own directory (a mount);
	// empty if it is where the provider sees it.
	HAProxyDir string
	// BindAddress has HAProxy listen on the load balancer's addresses only,
	// for one that shares its addresses with others.
	BindAddress bool
	Instances   instances
	Recorder    *Recorder
	// ClearStatus removes status.loadBalancer of a Service that is refused;
	// the service controller only writes it on success.
	ClearStatus func(ctx context.Context, svc *v1.Service) error
	Log         *slog.Logger
}

// Provider implements cloudprovider.Interface with LoadBalancer alone. Safe for
// concurrent use.
type Provider struct {
	balancer *balancer
}

var (
	_ cloudprovider.Interface    = (*Provider)(nil)
	_ cloudprovider.LoadBalancer = (*Provider)(nil)
)

// New returns a provider. Sweep should be called once before it is used.
func New(c Config) *Provider {
	return &Provider{balancer: newBalancer(c)}
}

// Sweep attaches to the load balancers that run, and removes those whose
// Service is gone: wanted are those that are still the controller's to serve
// or to clean up. What these publish is kept for them.
func (p *Provider) Sweep(ctx context.Context, wanted []*v1.Service) error {
	return p.balancer.sweep(ctx, wanted)
}

// Follow notes what watch tells of load balancers that start and end, brings back
// those that nobody else does, and ends the connections of nodes that were removed
// Profile.Drain ago, until ctx ends.
func (p *Provider) Follow(ctx context.Context, watch func(context.Context, func(instance.Event))) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.balancer.endDrains(ctx) })
	watch(ctx, func(e instance.Event) {
		if e.Kind != instance.Removed {
			p.balancer.Recorder.Instance(e)
		}
		if e.Kind != instance.Started {
			wg.Go(func() { p.balancer.revive(ctx, e.Name) })
		}
	})
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (p *Provider) GetLoadBalancerName(_ context.Context, _ string, svc *v1.Service) string {
	return p.balancer.name(svc)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. One whose HAProxy
// is missing exists as long as its address is kept: it is to be made again, or
// to be cleaned up.
func (p *Provider) GetLoadBalancer(ctx context.Context, _ string, svc *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	i, ok, err := p.balancer.find(ctx, p.balancer.name(svc))
	if err != nil {
		return nil, false, err
	}
	if ok {
		return status(svc, i.Addrs), true, nil
	}
	if addrs, _ := p.balancer.due(svc); len(addrs) > 0 {
		return status(svc, addrs), true, nil
	}
	return nil, false, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer. It returns after
// the first round of health checks.
func (p *Provider) EnsureLoadBalancer(ctx context.Context, _ string, svc *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	addrs, err := p.balancer.ensure(ctx, svc, nodes)
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
	return p.balancer.update(ctx, svc, nodes)
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (p *Provider) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *v1.Service) error {
	return p.balancer.remove(ctx, p.balancer.name(svc))
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

func isRefusal(err error) bool { return errors.As(err, new(*lbplan.Refusal)) }

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
