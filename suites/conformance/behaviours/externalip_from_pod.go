package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-from-pod", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "What a pod sends to an external IP of a Service reaches each ready endpoint, by no less than half and no more than one and a half of its even share, by TCP and UDP, from every node, as long as there is the Service.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.ExternalIPsRouted, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts, promise.Synchronized, promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Upstream: "[sig-network] Services should be possible to connect to a service via ExternalIP when the external IP is not assigned to a node",
		Run:      reachAllReady(atExternalIP, (*kit.Spec).PodClients),
	}
}
