package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceCIDRAdded() kit.Behaviour {
	return kit.Behaviour{
		ID: "servicecidr-added", Level: kit.Must, Profile: kit.ProfileServiceCIDR,
		Says:     "A further range for ClusterIPs, added and taken away, costs no Service a connection.",
		Promises: []promise.Promise{promise.MoreAddresses, promise.ServiceCIDR},
		Source:   []string{"KEP-1880"},
		Needs:    []kit.Need{kit.NeedServices},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc, pod, before := s.Service(), s.Nodes[1].A, s.Service()
			before.Endpoints(pod.Ready())
			svc.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			s.Throughout(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), 200, func() {
				added := s.AddServiceCIDR(s.FurtherRange())
				// What is made after it shows that the dataplane has seen it.
				after := s.Service()
				after.Endpoints(pod.Ready())
				s.Expect(s.Nodes[0].B.Client, kit.TCP(after.ClusterIP()), kit.Pods(pod))
				added.Delete()
				after.Endpoints()
				s.Expect(s.Nodes[0].B.Client, kit.TCP(after.ClusterIP()), kit.Unreachable())
			}, pod.Client)
		},
	}
}
