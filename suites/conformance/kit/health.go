package kit

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// proxyHealthPort is where a service proxy says how it is (kube-proxy's
// healthzBindAddress).
const proxyHealthPort = 10256

// ProxyHealth is where a node's service proxy says how it is.
func (s *Spec) ProxyHealth(n *Node) netip.AddrPort {
	return netip.AddrPortFrom(n.Addr(s.Family), proxyHealthPort)
}

// ToBeDeleted is the taint of a node that cluster-autoscaler is about to delete.
func ToBeDeleted() corev1.Taint {
	return corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectNoSchedule}
}

// Untaint removes a taint before the behaviour ends.
func (s *Spec) Untaint(n *Node, t corev1.Taint) {
	s.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := s.env.client.CoreV1().Nodes().Get(s.ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var rest []corev1.Taint
		for _, o := range node.Spec.Taints {
			if o.Key != t.Key {
				rest = append(rest, o)
			}
		}
		node.Spec.Taints = rest
		_, err = s.env.client.CoreV1().Nodes().Update(s.ctx, node, metav1.UpdateOptions{})
		return err
	}), "remove taint %s of %s", t.Key, n.Name)
	s.changed()
}

// ExpectClosed demands that nobody listens at a port where HTTP was served before.
func (s *Spec) ExpectClosed(c Client, at netip.AddrPort) {
	s.ExpectHTTP(c, at, "/", func(r *remote.Response) string {
		if r.Class != remote.Refused {
			return fmt.Sprintf("want the port refused, got %s, status %d", r.Class, r.Status)
		}
		return ""
	})
	s.Expect(c, TCP(at), Rejected())
}
