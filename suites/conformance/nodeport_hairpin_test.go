package conformance

import "github.com/plumbline/plumbline/suites/conformance/kit"

var _ = behaviour(kit.Behaviour{
	ID: "nodeport-hairpin", Level: kit.Must, Profile: kit.ProfileCore,
	Says:   "A pod reaches itself by a node port, at its own node and at another.",
	Source: []string{"https://kubernetes.io/docs/concepts/services-networking/service/#type-nodeport", "https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/"},
}, func(s *kit.Spec) {
	svc, self := s.Service(kit.NodePorts), s.Nodes[0].A
	svc.Endpoints(self.Ready())
	s.Expect(self.Client, kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(self))
	s.Expect(self.Client, kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(self))
})
