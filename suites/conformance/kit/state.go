package kit

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// With sets the conditions one by one; nil leaves one out.
func (e Endpoint) With(ready, serving, terminating *bool) Endpoint {
	e.ready, e.serving, e.terminating = ready, serving, terminating
	return e
}

// Source is the address that a node sees of a client if no Service is between.
func (s *Spec) Source(c Client, n *Node) netip.Addr {
	if s.planned != nil {
		return c.Addr(s.Family)
	}
	to := netip.AddrPortFrom(n.Addr(s.Family), HostPort)
	res, err := c.probe.Batch(s.ctx, remote.Batch{Network: remote.TCP, Target: to, Attempts: 1})
	s.must(err, "attempt of %s to %s", c.Name, to)
	s.env.count(res)
	r := res.Attempts[0]
	if r.Class != remote.OK {
		s.Inconclusive("control: %s does not reach %s (%s) without a Service either: %s", c.Name, n.Name, to, r)
	}
	return r.Seen.Addr().Unmap()
}

// Label sets a label of a node, or removes it if the value is empty, until the
// behaviour ends.
func (s *Spec) Label(n *Node, key, value string) {
	put := func(ctx context.Context, value string) (before string, err error) {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			node, err := s.env.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			before = node.Labels[key]
			delete(node.Labels, key)
			if value != "" {
				metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
			}
			_, err = s.env.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
			return err
		})
		return before, err
	}
	before, err := put(s.ctx, value)
	s.must(err, "set label %s of node %s", key, n.Name)
	s.onEnd(func() error {
		_, err := put(context.WithoutCancel(s.ctx), before)
		return err
	})
	s.did(handNode(n, "label node", "--overwrite", labelled(key, value)), "labelled node %s: %s", n.Name, labelled(key, value))
	s.changed()
}

// Zoned is one node of each zone, in the order of their names.
func (s *Spec) Zoned() []*Node {
	var out []*Node
	for _, n := range s.Nodes {
		if n.Zone != "" && !slices.ContainsFunc(out, func(o *Node) bool { return o.Zone == n.Zone }) {
			out = append(out, n)
		}
	}
	return out
}

// Distribution sets trafficDistribution. Hints come with the endpoints; this is
// for dataplanes that heed them only where the Service asks for it.
func Distribution(preference string) func(*corev1.Service) {
	return func(o *corev1.Service) { o.Spec.TrafficDistribution = &preference }
}
