package kit

import (
	"context"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ExpectReady waits until the control plane gives addresses of the range: that it does
// is no matter of the dataplane.
func (c *ServiceCIDR) ExpectReady() {
	s := c.spec
	if s.planned != nil {
		return
	}
	err := wait.PollUntilContextTimeout(s.ctx, 50*time.Millisecond, s.env.cfg.Timeouts.Range, true, func(ctx context.Context) (bool, error) {
		o, err := s.env.client.NetworkingV1().ServiceCIDRs().Get(ctx, c.name, metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionTrue(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady), err
	})
	s.must(err, "wait until ServiceCIDR %s is ready", c.name)
	s.did(nil, "waited until ServiceCIDR %s was ready", c.name)
	s.changed()
}

// Within is the address so many after the first of a range.
func Within(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}
