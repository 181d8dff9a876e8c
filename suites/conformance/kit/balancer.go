package kit

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/suites/run"
)

// fronted is a stage with a load balancer in front.
type fronted interface{ LB() run.LB }

// Balanced makes it a Service of type LoadBalancer that the stage's own load
// balancer serves (NeedLB).
func Balanced(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeLoadBalancer }

// AwaitIngress waits until the load balancer has published its address.
func (v *Service) AwaitIngress() netip.Addr {
	s := v.spec
	if s.planned != nil {
		a := s.FreeAddr()
		v.Ingress(corev1.LoadBalancerIPModeProxy, a)
		return a
	}
	for began := time.Now(); ; {
		o, err := s.env.client.CoreV1().Services(s.env.namespace).Get(s.ctx, v.obj.Name, metav1.GetOptions{})
		s.must(err, "read Service %s", v.obj.Name)
		for _, in := range o.Status.LoadBalancer.Ingress {
			a, err := netip.ParseAddr(in.IP)
			s.must(err, "read the address of Service %s", v.obj.Name)
			if familyOf(a) == s.Family {
				v.obj = o
				s.did(nil, "waited %s until the load balancer had given Service %s an address: %s", time.Since(began).Round(time.Millisecond), v.obj.Name, a)
				s.changed()
				return a
			}
		}
		if time.Since(began) > s.env.cfg.Timeouts.Balancer {
			s.Inconclusive("the load balancer gave Service %s no address within %s", v.obj.Name, s.env.cfg.Timeouts.Balancer)
		}
		s.Pause(50 * time.Millisecond)
	}
}

// AtIP is an entry of status.loadBalancer with an address.
func AtIP(mode corev1.LoadBalancerIPMode, a netip.Addr) corev1.LoadBalancerIngress {
	return corev1.LoadBalancerIngress{IP: a.String(), IPMode: &mode}
}

// AtName is one with a name.
func AtName(name string) corev1.LoadBalancerIngress {
	return corev1.LoadBalancerIngress{Hostname: name}
}

// IngressEntries writes status.loadBalancer: entries of any kind.
func (v *Service) IngressEntries(entries ...corev1.LoadBalancerIngress) {
	v.spec.must(v.retry(func(o *corev1.Service) error {
		o.Status.LoadBalancer.Ingress = entries
		made, err := v.spec.env.client.CoreV1().Services(v.spec.env.namespace).UpdateStatus(v.spec.ctx, o, metav1.UpdateOptions{})
		if err == nil {
			v.obj = made
		}
		return err
	}), "write the status of Service %s", v.obj.Name)
	v.spec.did(handStatus(v.obj), "wrote the status of Service %s: %s", v.obj.Name, ingressText(v.obj))
	v.spec.changed()
}

// SourceRanges sets loadBalancerSourceRanges.
func SourceRanges(ranges ...string) func(*corev1.Service) {
	return func(o *corev1.Service) { o.Spec.LoadBalancerSourceRanges = ranges }
}

// Alone is the range of one address.
func Alone(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
