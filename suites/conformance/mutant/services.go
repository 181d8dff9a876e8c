package mutant

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// policyMutations misread the policies of Services and their affinity.
func policyMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"external-local-ignored": servicesOf(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "" }),
		"external-local-ignored-without-node-ports": servicesOf(func(s *corev1.Service) {
			if s.Spec.Type == corev1.ServiceTypeClusterIP {
				s.Spec.ExternalTrafficPolicy = ""
			}
		}),
		"internal-local-ignored": servicesOf(func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = nil }),
		"external-local-holds-inside": servicesOf(func(s *corev1.Service) {
			if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
				s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
			}
		}),
		"internal-local-holds-outside": servicesOf(func(s *corev1.Service) {
			if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			}
		}),
		"affinity-ignored":         servicesOf(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityNone }),
		"affinity-timeout-ignored": servicesOf(func(s *corev1.Service) { s.Spec.SessionAffinityConfig = nil }),
		"affinity-timeout-too-short": servicesOf(func(s *corev1.Service) {
			if a := s.Spec.SessionAffinityConfig; a != nil && a.ClientIP != nil {
				a.ClientIP.TimeoutSeconds = new(max(1, *a.ClientIP.TimeoutSeconds/3))
			}
		}),
		"affinity-changes-not-noticed": first(func(s *corev1.Service) corev1.ServiceAffinity { return s.Spec.SessionAffinity },
			func(s *corev1.Service, was corev1.ServiceAffinity) { s.Spec.SessionAffinity = was }),
		"affinity-timeout-changes-not-noticed": first(func(s *corev1.Service) *corev1.SessionAffinityConfig { return s.Spec.SessionAffinityConfig },
			func(s *corev1.Service, was *corev1.SessionAffinityConfig) { s.Spec.SessionAffinityConfig = was }),
		"external-policy-changes-not-noticed": first(func(s *corev1.Service) corev1.ServiceExternalTrafficPolicy { return s.Spec.ExternalTrafficPolicy },
			func(s *corev1.Service, was corev1.ServiceExternalTrafficPolicy) { s.Spec.ExternalTrafficPolicy = was }),
		"internal-policy-changes-not-noticed": first(func(s *corev1.Service) *corev1.ServiceInternalTrafficPolicy { return s.Spec.InternalTrafficPolicy },
			func(s *corev1.Service, was *corev1.ServiceInternalTrafficPolicy) { s.Spec.InternalTrafficPolicy = was }),
	}
}

// addressMutations misread ports and addresses of Services.
func addressMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"port-changes-not-noticed": first(func(s *corev1.Service) []corev1.ServicePort { return slices.Clone(s.Spec.Ports) },
			func(s *corev1.Service, was []corev1.ServicePort) { s.Spec.Ports = was }),
		"source-range-changes-not-noticed": first(func(s *corev1.Service) []string { return s.Spec.LoadBalancerSourceRanges },
			func(s *corev1.Service, was []string) { s.Spec.LoadBalancerSourceRanges = was }),
		"protocols-of-one-port-mixed-up": servicesOf(onePerNumber),
		"second-port-not-served": servicesOf(func(s *corev1.Service) {
			if len(s.Spec.Ports) > 1 && s.Spec.Ports[0].Protocol == s.Spec.Ports[1].Protocol {
				s.Spec.Ports = s.Spec.Ports[:1]
			}
		}),
		"external-ips-ignored": servicesOf(func(s *corev1.Service) { s.Spec.ExternalIPs = nil }),
		"external-ips-kept": first(func(s *corev1.Service) []string { return s.Spec.ExternalIPs },
			func(s *corev1.Service, was []string) { s.Spec.ExternalIPs = was }),
		"ip-mode-ignored":             ingress(func(in *corev1.LoadBalancerIngress) bool { in.IPMode = nil; return true }),
		"ip-mode-changes-not-noticed": ipModesOnce,
		"hostname-spoils-status": servicesOf(func(s *corev1.Service) {
			if slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return in.IP == "" }) {
				s.Status.LoadBalancer.Ingress = nil
			}
		}),
		"second-ingress-ignored": servicesOf(func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = s.Status.LoadBalancer.Ingress[:min(1, len(s.Status.LoadBalancer.Ingress))]
		}),
		"ingress-kept":                ingressKept,
		"ingress-of-one-service-only": ingressOfOneServiceOnly,
		"other-classes-ignored": servicesOf(func(s *corev1.Service) {
			if c := s.Spec.LoadBalancerClass; c == nil || *c != "plumbline.io/by-hand" {
				s.Status.LoadBalancer.Ingress = nil
			}
		}),
	}
}

// serviceMutations misread the rest of Services, and ServiceCIDRs.
func serviceMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"source-ranges-ignored":           servicesOf(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil }),
		"source-range-all-not-understood": sourceRanges(func(r string) bool { return !strings.HasSuffix(r, "/0") }),
		"source-range-spaces-not-trimmed": sourceRanges(func(r string) bool { return strings.TrimSpace(r) == r }),
		"source-ranges-of-first-only": servicesOf(func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = s.Spec.LoadBalancerSourceRanges[:min(1, len(s.Spec.LoadBalancerSourceRanges))]
		}),
		"service-deletions-lost": func(c *changes) {
			c.hears = func(t watch.EventType, o runtime.Object) bool {
				_, node := o.(*corev1.Node)
				return t != watch.Deleted || node
			}
		},
		"type-changes-not-noticed": typesOnce,
		"external-name-not-noticed": func(c *changes) {
			c.hears = func(_ watch.EventType, o runtime.Object) bool {
				s, ok := o.(*corev1.Service)
				return !ok || s.Spec.Type != corev1.ServiceTypeExternalName
			}
		},
		"services-of-other-proxies-served": func(c *changes) {
			c.asks = func(o *metav1.ListOptions) {
				if strings.Contains(o.LabelSelector, objects.LabelProxyName) {
					o.LabelSelector = ""
				}
			}
			servicesOf(func(s *corev1.Service) { delete(s.Labels, objects.LabelProxyName) })(c)
		},
		"headless-served-at-external-ips": servicesOf(func(s *corev1.Service) {
			if s.Spec.ClusterIP == corev1.ClusterIPNone {
				s.Spec.ClusterIP, s.Spec.ClusterIPs = "", []string{unusedOf(s)}
			}
		}),
		"service-cidrs-ignored": cidrs(func(bool) bool { return false }),
	}
}

func servicesOf(f func(*corev1.Service)) func(*changes) {
	return func(c *changes) {
		c.object = func(o runtime.Object) {
			if s, ok := o.(*corev1.Service); ok {
				f(s)
			}
		}
	}
}

// first keeps what a Service said when it was first heard of.
func first[T any](get func(*corev1.Service) T, set func(*corev1.Service, T)) func(*changes) {
	return func(c *changes) {
		seen := map[string]T{}
		servicesOf(func(s *corev1.Service) {
			if _, ok := seen[string(s.UID)]; !ok {
				seen[string(s.UID)] = get(s)
			}
			set(s, seen[string(s.UID)])
		})(c)
	}
}

// onePerNumber takes two ports of one number for one.
func onePerNumber(s *corev1.Service) {
	numbers := map[int32]bool{}
	s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		twice := numbers[p.Port]
		numbers[p.Port] = true
		return twice
	})
}

// ingress keeps the entries of the status that f does.
func ingress(f func(*corev1.LoadBalancerIngress) bool) func(*changes) {
	return servicesOf(func(s *corev1.Service) {
		var out []corev1.LoadBalancerIngress
		for _, in := range s.Status.LoadBalancer.Ingress {
			if f(&in) {
				out = append(out, in)
			}
		}
		s.Status.LoadBalancer.Ingress = out
	})
}

// ipModesOnce takes the mode that an address had first.
func ipModesOnce(c *changes) {
	was := map[string]*corev1.LoadBalancerIPMode{}
	servicesOf(func(s *corev1.Service) {
		for i, in := range s.Status.LoadBalancer.Ingress {
			key := string(s.UID) + in.IP
			if _, ok := was[key]; !ok {
				was[key] = in.IPMode
			}
			s.Status.LoadBalancer.Ingress[i].IPMode = was[key]
		}
	})(c)
}

// ingressKept forgets no address of a status.
func ingressKept(c *changes) {
	seen := map[string][]corev1.LoadBalancerIngress{}
	servicesOf(func(s *corev1.Service) {
		now := s.Status.LoadBalancer.Ingress
		for _, old := range seen[string(s.UID)] {
			if !slices.ContainsFunc(now, func(in corev1.LoadBalancerIngress) bool { return in.IP == old.IP }) {
				now = append(now, old)
			}
		}
		seen[string(s.UID)], s.Status.LoadBalancer.Ingress = now, now
	})(c)
}

// ingressOfOneServiceOnly gives an address to the Service that had it first.
func ingressOfOneServiceOnly(c *changes) {
	owner := map[string]string{}
	servicesOf(func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = slices.DeleteFunc(s.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool {
			if owner[in.IP] == "" {
				owner[in.IP] = s.Name
			}
			return owner[in.IP] != s.Name
		})
	})(c)
}

func sourceRanges(keep func(string) bool) func(*changes) {
	return servicesOf(func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = slices.DeleteFunc(s.Spec.LoadBalancerSourceRanges, func(r string) bool { return !keep(r) })
	})
}

// typesOnce does not take node ports back.
func typesOnce(c *changes) {
	was := map[string][]corev1.ServicePort{}
	servicesOf(func(s *corev1.Service) {
		switch {
		case s.Spec.Type == corev1.ServiceTypeNodePort:
			was[s.Name] = slices.Clone(s.Spec.Ports)
		case s.Spec.Type == corev1.ServiceTypeClusterIP && was[s.Name] != nil:
			s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeNodePort, was[s.Name]
		}
	})(c)
}

// unusedOf is an address that no Service has.
func unusedOf(s *corev1.Service) string {
	if slices.Contains(s.Spec.IPFamilies, corev1.IPv6Protocol) {
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 0xff}).String()
	}
	return netip.AddrFrom4([4]byte{203, 0, 113, 255}).String()
}

// cidrs hears of ServiceCIDRs as f has it: of those there at the start, or later.
func cidrs(f func(initial bool) bool) func(*changes) {
	return func(c *changes) {
		var first string
		c.hears = func(_ watch.EventType, o runtime.Object) bool {
			r, ok := o.(*networkingv1.ServiceCIDR)
			if !ok {
				return true
			}
			if first == "" {
				first = r.Name
			}
			return f(r.Name == first)
		}
	}
}
