package kit

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// HealthAt is where a service proxy says at its node, by HTTP, how it is. What is empty is
// as with kube-proxy (healthzBindAddress).
type HealthAt struct {
	Port    uint16 `json:"port,omitempty"`
	Healthz string `json:"healthz,omitempty"` // the path that answers 503 while the node is to be deleted
	Livez   string `json:"livez,omitempty"`   // the path that does not
}

// Check says what is wrong with it.
func (h HealthAt) Check() error {
	for _, path := range []string{h.Healthz, h.Livez} {
		if path != "" && !strings.HasPrefix(path, "/") {
			return fmt.Errorf("health: path %q begins with no slash", path)
		}
	}
	return nil
}

// ProxyHealth is where a node's service proxy says how it is, at Healthz and Livez.
func (s *Spec) ProxyHealth(n *Node) netip.AddrPort {
	return netip.AddrPortFrom(n.Addr(s.Family), cmp.Or(s.env.cfg.Health.Port, 10256))
}

// Healthz is the path of ProxyHealth for load balancers.
func (s *Spec) Healthz() string { return cmp.Or(s.env.cfg.Health.Healthz, "/healthz") }

// Livez is the path of ProxyHealth for who restarts a proxy that is not well.
func (s *Spec) Livez() string { return cmp.Or(s.env.cfg.Health.Livez, "/livez") }

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
	s.did(handNode(n, "taint node", t.Key+"-"), "removed taint %s of node %s", t.Key, n.Name)
	s.changed()
}

// ExpectNoCheck demands that nobody answers 200 any more at a port where a Service had its
// health check, whichever way, and says which.
func (s *Spec) ExpectNoCheck(c Client, at netip.AddrPort) {
	r := s.ExpectHTTP(c, at, "/", NotStatus(200))
	s.Say("%s asks http://%s/: %s, status %d", c.Name, at, r.Class, r.Status)
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
