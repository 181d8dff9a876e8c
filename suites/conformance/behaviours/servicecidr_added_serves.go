package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceCIDRAddedServes() kit.Behaviour {
	return kit.Behaviour{
		ID: "servicecidr-added-serves", Level: kit.Must, Profile: kit.ProfileServiceCIDR,
		Says:     "A Service whose ClusterIP is of a range that was added while the dataplane runs is served there, to pods and nodes, and at its node port.",
		Promises: []promise.Promise{promise.MoreAddresses, promise.ServiceCIDR},
		Source:   []string{"KEP-1880"},
		Upstream: "[sig-network] Service CIDRs should create Services and serve on different Service CIDRs",
		Needs:    []kit.Need{kit.NeedServices},
		Serial:   true,
		Run: func(s *kit.Spec) {
			further := s.FurtherRange()
			s.AddServiceCIDR(further).ExpectReady()
			at, pods := kit.Within(further, 10), []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A}
			svc := s.Service(kit.NodePorts, func(o *corev1.Service) { o.Spec.ClusterIP = at.String() })
			svc.Endpoints(pods[0].Ready(), pods[1].Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pods...))
			s.Expect(s.Nodes[0].Client, kit.TCP(svc.ClusterIP()), kit.Pods(pods...))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(pods...))
		},
	}
}
