package behaviours

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-vip", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections, and all datagrams, of a client to the address of a load balancer in VIP mode go to one endpoint, from inside, and from outside by the node they arrive at; and each of 96 clients has one of its own, evenly of the Service's endpoints, at a node port and an external IP too.",
		Promises: []promise.Promise{promise.Affinity, promise.Ingress, promise.AllEvenly, promise.EveryNode, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			stick(atVIP)(s)
			host, addrs := s.HostOfMany(s.Nodes[0])
			vip, at := atVIP(s, kit.Sticky(600))
			nodePorts := s.Service(kit.NodePorts, kit.Sticky(600), kit.Both)
			targets := []kit.Target{kit.TCP(vip.At(at)), kit.TCP(nodePorts.NodePort(s.Nodes[0]))}
			all := []*kit.Service{vip, nodePorts}
			if s.Has(kit.FeatureExternalIPs) {
				external, at := atExternalIP(s, kit.Sticky(600))
				targets, all = append(targets, kit.TCP(external.At(at))), append(all, external)
			}
			for _, svc := range all {
				svc.Kinds()
			}
			heard(s, s.Nodes[0].B.Client)
			for _, to := range targets {
				stickMany(s, to, host, addrs)
			}
		},
	}
}

// manyLeast and manyMost are for 96 clients of three endpoints that chance assigns, 32 each with a standard deviation
// of 4.6: they are passed once in 10^7 times that a target is asked.
const manyLeast, manyMost = 8, 58

// stickMany: each of many clients of a Service with the endpoints of Kinds stays with the endpoint that it had first,
// when all others have come too. One that was forgotten gets the same again in one of three.
func stickMany(s *kit.Spec, to kit.Target, host kit.Client, addrs []netip.Addr) {
	bound := make([]kit.Client, len(addrs))
	for i, a := range addrs {
		bound[i] = s.ExpectOne(host.As(a), to, 2, s.OfKinds()...)
	}
	if !slices.ContainsFunc(bound, func(c kit.Client) bool { return c.Name != bound[0].Name }) { // by chance never: 3^-95
		s.Fail("each of %d clients has the same endpoint, of %d", len(addrs), len(s.OfKinds()))
	}
	if s.Has(kit.FeatureSpread) {
		for _, server := range s.OfKinds() {
			has := len(slices.DeleteFunc(slices.Clone(bound), func(c kit.Client) bool { return c.Name != server.Name }))
			if has < manyLeast || has > manyMost {
				s.Fail("of %d clients %d have %s, of %d endpoints, want %d to %d", len(addrs), has, server.Name, len(s.OfKinds()), manyLeast, manyMost)
			}
		}
	}
	for i, a := range addrs {
		s.Expect(host.As(a), to, kit.Only(bound[i]).Times(2))
	}
}
