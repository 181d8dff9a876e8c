package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipIPModeProxyFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-ipmode-proxy-from-beyond", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "The address of a load balancer in mode Proxy is not answered by endpoints to hosts outside either, by TCP and UDP.",
		Promises: []promise.Promise{promise.IPMode},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Features: []kit.Feature{kit.FeatureIPMode},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      func(s *kit.Spec) { proxyNotHandled(s, beyond(s)...) },
	}
}
