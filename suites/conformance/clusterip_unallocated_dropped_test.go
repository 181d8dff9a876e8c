package conformance

import "github.com/plumbline/plumbline/suites/conformance/kit"

var _ = behaviour(kit.Behaviour{
	ID: "clusterip-unallocated-dropped", Level: kit.Should, Profile: kit.ProfileCore,
	Says:   "What a pod sends to an address of the Service range that no Service has (any more) is dropped: it is not refused, and leaves the node by no route.",
	Source: []string{"KEP-3866", "kubernetes/kubernetes pkg/proxy/nftables/README.md"},
	Serial: true,
}, func(s *kit.Spec) {
	svc, pod := s.Service(), s.Nodes[0].A
	svc.Endpoints(s.Nodes[1].A.Ready())
	s.Expect(pod.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
	svc.Delete()
	s.Expect(pod.Client, kit.TCP(svc.ClusterIP()), kit.Dropped())
})
