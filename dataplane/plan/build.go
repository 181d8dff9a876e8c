package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Build makes the plan of all Services. A snapshot without its Node gives a
// node without addresses: no node ports.
func Build(snap *objects.Snapshot, opt Options) *Plan {
	p := &Plan{Node: BuildNode(snap, opt), Services: make(map[objects.Name]Service, len(snap.Services))}
	for name := range snap.Services {
		if s, ok := BuildService(snap, name, opt); ok {
			p.Services[name] = s
		}
	}
	return p
}

// BuildService makes the plan of one Service; ok is false when this proxy has
// nothing to do for it: unknown, headless, ExternalName, or another proxy's.
func BuildService(snap *objects.Snapshot, name objects.Name, opt Options) (out Service, ok bool) {
	svc, known := snap.Services[name]
	if !known || svc.ProxyName != "" || svc.Type == objects.ExternalName || len(svc.ClusterIPs) == 0 {
		return Service{}, false
	}
	b := newBuilder(snap, svc, opt)
	for _, vip := range svc.ClusterIPs {
		out.Frontends = append(out.Frontends, Frontend{
			Key: Key{IPv6: vip.Is6(), Addr: vip}, Kind: ClusterIP, Outside: Route{Action: Reject},
		})
		for _, port := range svc.Ports {
			if port.Protocol != objects.SCTP || opt.SCTP {
				out.Frontends = append(out.Frontends, b.frontends(vip, port)...)
			}
		}
	}
	out.Frontends = distinct(out.Frontends)
	out.HealthCheck, out.Created = b.healthCheck(), svc.Created
	out.Warnings = slices.Sorted(maps.Keys(b.warnings))
	return out, true
}

// distinct sorts frontends and keeps the first of each key: an address that is
// both the load balancer's and an external IP is one frontend.
func distinct(in []Frontend) []Frontend {
	slices.SortFunc(in, func(a, b Frontend) int { return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Kind, b.Kind)) })
	return slices.CompactFunc(in, func(a, b Frontend) bool { return a.Key == b.Key })
}

type builder struct {
	opt      Options
	node     string
	zone     string
	snap     *objects.Snapshot
	svc      objects.Service
	slices   []objects.EndpointSlice
	warnings map[string]bool
	found    map[which][]candidate
}

func newBuilder(snap *objects.Snapshot, svc objects.Service, opt Options) *builder {
	b := &builder{opt: opt, node: opt.Node, snap: snap, svc: svc, slices: snap.Slices[svc.Name], warnings: map[string]bool{}, found: map[which][]candidate{}}
	if snap.Node != nil {
		b.zone = snap.Node.Zone
	}
	return b
}
