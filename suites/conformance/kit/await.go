package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/kubewait"
)

// probeKinds are the probes of each node: in its own network, and in two pods.
var probeKinds = []string{"probe-node", "probe-a", "probe-b"}

// awaitProbes waits until every node has its probes ready, and returns them by what
// they are and their node. If they do not come it names each and says how it is.
func (e *Env) awaitProbes(ctx context.Context, nodes []cluster.Node) (map[string]map[string]corev1.Pod, error) {
	var out map[string]map[string]corev1.Pod
	missing := "none seen"
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, e.cfg.Timeouts.Probes, true, func(ctx context.Context) (bool, error) {
		list, err := e.client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			if ctx.Err() == nil { // at the end of patience the state before says more
				missing = err.Error()
			}
			return false, nil
		}
		var lacks []string
		out, lacks = probesOn(nodes, list.Items)
		missing = fmt.Sprintf("%d of %d not ready: %s", len(lacks), len(probeKinds)*len(nodes), strings.Join(lacks, "; "))
		return len(lacks) == 0, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the probes (%s): %w", missing, err)
	}
	return out, nil
}

// probesOn are the ready probes of nodes, by what they are and their node, and what the
// others lack. Pods that go and pods of other nodes do not matter.
func probesOn(nodes []cluster.Node, pods []corev1.Pod) (ready map[string]map[string]corev1.Pod, lacks []string) {
	ready = map[string]map[string]corev1.Pod{}
	for _, kind := range probeKinds {
		ready[kind] = map[string]corev1.Pod{}
		for _, n := range nodes {
			at := slices.IndexFunc(pods, func(p corev1.Pod) bool {
				return p.DeletionTimestamp == nil && p.Labels["probe"] == kind && meantFor(p) == n.Name
			})
			switch {
			case at < 0:
				lacks = append(lacks, fmt.Sprintf("%s: no pod on node %s", kind, n.Name))
			case kubewait.Holds(pods[at], corev1.PodReady):
				ready[kind][n.Name] = pods[at]
			default:
				lacks = append(lacks, fmt.Sprintf("%s on node %s: %s", pods[at].Name, n.Name, podState(pods[at])))
			}
		}
	}
	return ready, lacks
}

// meantFor is the node of a pod: of a DaemonSet's pod that the scheduler has not bound,
// the one that its controller made it for.
func meantFor(p corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return p.Spec.NodeName
	}
	required := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// podState is why a pod is not ready, as far as it says: its phase, what its containers
// wait for or died of, or else the condition that does not hold.
func podState(p corev1.Pod) string {
	state := string(p.Status.Phase)
	said := func(words ...string) {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		if len(words) > 0 {
			state += ", " + strings.Join(words, ": ")
		}
	}
	said(p.Status.Reason, p.Status.Message)
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			said(w.Reason, w.Message)
		}
		if t := c.State.Terminated; t != nil {
			said(t.Reason, fmt.Sprintf("exit %d", t.ExitCode), t.Message)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Status == corev1.ConditionFalse {
			said(c.Reason, c.Message)
		}
	}
	return state
}
