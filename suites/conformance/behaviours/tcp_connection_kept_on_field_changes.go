package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptOnFieldChanges() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-on-field-changes", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "TCP connections whose endpoint is there before and after stay whole when session affinity, traffic policies, labels and annotations of their Service change, and change back, and no new one fails.",
		Promises: []promise.Promise{promise.TCP, promise.ClientsUnaware},
		Writes:   kit.SinceInternalPolicy,
		Long:     true,
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts), s.Nodes[0]
			svc.Endpoints(n.A.Ready()) // of the node that is asked: each policy allows it
			ways := append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...)
			s.Each(ways, kit.Pods(n.A))
			stay := stand(s, ways)
			for _, change := range []func(*corev1.Service){
				kit.Sticky(600),
				kit.NotSticky,
				kit.InternalLocal, kit.InternalCluster, kit.ExternalLocal, kit.ExternalCluster,
				func(o *corev1.Service) { o.Labels = map[string]string{"tier": "web"} },
				func(o *corev1.Service) { o.Annotations = map[string]string{"example.com/owner": "web"} },
				func(o *corev1.Service) { o.Labels, o.Annotations = nil, nil },
			} {
				s.UnderLoad(ways, func() {
					svc.Update(change)
					heard(s, n.B.Client)
					s.Each(ways, kit.Pods(n.A))
				}, n.A.Client)
				stay()
			}
		},
	}
}
