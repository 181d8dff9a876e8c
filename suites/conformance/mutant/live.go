package mutant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// liveMutations do not follow one change of an object that lives, or of one that is gone.
func liveMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"external-ips-added-later-not-served": externalIPsAddedLost,
		"second-external-ip-ignored": servicesOf(func(s *corev1.Service) {
			s.Spec.ExternalIPs = s.Spec.ExternalIPs[:min(1, len(s.Spec.ExternalIPs))]
		}),
	}
}

// externalIPsAddedLost serves the external IPs alone that a Service had when it was made.
func externalIPsAddedLost(c *changes) {
	had := map[string][]string{}
	servicesOf(func(s *corev1.Service) {
		if _, ok := had[string(s.UID)]; !ok {
			had[string(s.UID)] = slices.Clone(s.Spec.ExternalIPs)
		}
		s.Spec.ExternalIPs = slices.DeleteFunc(s.Spec.ExternalIPs, func(a string) bool { return !slices.Contains(had[string(s.UID)], a) })
	})(c)
}
