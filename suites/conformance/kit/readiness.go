package kit

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// notReadyTries is how often a node is made not ready before its kubelet is said to
// prevent it. Kubelets look every ten seconds: each try but the first has that long.
const notReadyTries = 3

// WhileSaid is how long a kubelet leaves what WhileNotReady says of its node, in all
// tries but the first, and some seconds to spare.
const WhileSaid = 5 * time.Second

// ExpectHTTPWithin is ExpectHTTP for an answer that proves something only for so long
// after the last change.
func (s *Spec) ExpectHTTPWithin(d time.Duration, c Client, at netip.AddrPort, path string, wrong func(*remote.Response) string) {
	_, late := s.awaitHTTP(d, c, at, path, wrong)
	for n := 0; late > 0 && n < confirmations; n++ {
		if r, why := s.askHTTP(c, at, path, wrong); why != "" && time.Since(s.at) <= d {
			s.failHTTP(c, at, path, r, wavered(late, why))
		}
	}
}

// WhileNotReady runs f while the API says that a node is not ready. Its kubelet denies
// that as soon as it looks: if it did meanwhile, f is run again, and must bear that.
// Pods of the node may be said not to be ready for some seconds longer.
func (s *Spec) WhileNotReady(n *Node, f func()) {
	said := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "Conformance", Message: "said by a test"}
	before, err := s.putReady(s.ctx, n, said)
	s.must(err, "make node %s not ready", n.Name)
	s.onEnd(func() error {
		_, err := s.putReady(context.WithoutCancel(s.ctx), n, before)
		return err
	})
	for range notReadyTries {
		s.did(nil, "said of node %s, in its status, that it is not ready", n.Name)
		s.changed()
		f()
		now, err := s.putReady(s.ctx, n, said)
		s.must(err, "make node %s not ready", n.Name)
		if now.Status == said.Status {
			return
		}
	}
	s.Inconclusive("the kubelet of %s made it ready %d times while it was to be not ready", n.Name, notReadyTries)
}

// putReady writes the condition Ready of a node and returns the one it had.
func (s *Spec) putReady(ctx context.Context, n *Node, c corev1.NodeCondition) (before corev1.NodeCondition, err error) {
	nodes := s.env.client.CoreV1().Nodes()
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i, have := range node.Status.Conditions {
			if have.Type != c.Type {
				continue
			}
			before = have
			next := have // with the kubelet's sign of life
			next.Status, next.Reason, next.Message = c.Status, c.Reason, c.Message
			if have.Status != c.Status {
				next.LastTransitionTime = metav1.Now()
			}
			node.Status.Conditions[i] = next
			_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
			return err
		}
		return fmt.Errorf("node %s has no condition %s", n.Name, c.Type)
	})
	return before, err
}

// NotStatus wants anything but an HTTP status: another, or no answer.
func NotStatus(code int) func(*remote.Response) string {
	return func(r *remote.Response) string {
		if r.Class == remote.OK && r.Status == code {
			return fmt.Sprintf("want no status %d, got: %s", code, r.Body)
		}
		return ""
	}
}
