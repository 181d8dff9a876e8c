package kit

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceCIDR is a further range of ClusterIPs, until the behaviour ends.
type ServiceCIDR struct {
	spec *Spec
	name string
}

// AddServiceCIDR makes one.
func (s *Spec) AddServiceCIDR(p netip.Prefix) *ServiceCIDR {
	c := &ServiceCIDR{s, s.name("range")}
	o := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	o.Spec.CIDRs = []string{p.String()}
	_, err := s.env.client.NetworkingV1().ServiceCIDRs().Create(s.ctx, o, metav1.CreateOptions{})
	s.must(err, "make ServiceCIDR %s of %s", c.name, p)
	s.onEnd(func() error { return c.delete(context.WithoutCancel(s.ctx)) })
	s.did(func(h *byHand) string { return "change " + h.apply(o) }, "made ServiceCIDR %s of %s", c.name, p)
	s.changed()
	return c
}

// FurtherRange is a range for documentation (RFC 5737, RFC 3849) that behaviours
// add as one of Services when they run by themselves.
func (s *Spec) FurtherRange() netip.Prefix {
	if s.Family == corev1.IPv6Protocol {
		return netip.MustParsePrefix("2001:db8:0:53::/112")
	}
	return netip.MustParsePrefix("203.0.113.0/24")
}

// Delete deletes it.
func (c *ServiceCIDR) Delete() {
	c.spec.must(c.delete(c.spec.ctx), "delete ServiceCIDR %s", c.name)
	c.spec.did(handDelete("servicecidr", c.name), "deleted ServiceCIDR %s", c.name)
	c.spec.changed()
}

func (c *ServiceCIDR) delete(ctx context.Context) error {
	err := c.spec.env.client.NetworkingV1().ServiceCIDRs().Delete(ctx, c.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ExecUntilEnd runs a command in a node's network, and another when the behaviour
// ends.
func (s *Spec) ExecUntilEnd(n *Node, do, undo []string) {
	if s.planned != nil {
		return
	}
	s.onEnd(func() error {
		_, err := s.env.stage.Cluster().Exec(context.WithoutCancel(s.ctx), n.Name, undo...)
		return err
	})
	s.Exec(n, do...)
}
