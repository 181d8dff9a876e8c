package kit

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plumbline/plumbline/fixtures/cluster"
)

// probePod is a probe of a node, ready or with a container that waits.
func probePod(kind, node string, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: kind + "-" + node, Namespace: "probes", Labels: map[string]string{"probe": kind}}}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodPending
	if ready {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return p
	}
	waiting := &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull", Message: "image is not present"}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: waiting}}}
	return p
}

// Whoever waits in vain is told which probes are missing and why; probes of nodes that
// do not count neither help nor matter.
func TestAwaitProbes(t *testing.T) {
	client := fake.NewClientset()
	e := &Env{client: client, namespace: "probes", cfg: Config{Timeouts: DefaultTimeouts()}}
	create := func(pods ...*corev1.Pod) {
		t.Helper()
		for _, p := range pods {
			if _, err := client.CoreV1().Pods("probes").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	unbound := probePod("probe-b", "", false) // the scheduler's to put on n2
	unbound.Name, unbound.Status = "probe-b-unbound", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "Insufficient cpu"},
	}}
	unbound.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}}}}},
	}}}
	create(probePod("probe-node", "n1", true), probePod("probe-a", "n1", true), probePod("probe-b", "n1", false), probePod("probe-node", "n2", true), unbound,
		probePod("probe-node", "other", true), probePod("probe-a", "other", true), probePod("probe-b", "other", true))
	nodes := []cluster.Node{{Name: "n1"}, {Name: "n2"}}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := e.awaitProbes(short, nodes)
	for _, want := range []string{
		"3 of 6 not ready",
		"probe-b-n1 on node n1: Pending, ErrImageNeverPull: image is not present",
		"probe-a: no pod on node n2",
		"probe-b-unbound on node n2: Pending, Unschedulable: Insufficient cpu",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "other") {
		t.Errorf("of a node that does not count: %v", err)
	}
	for _, name := range []string{"probe-b-n1", "probe-b-unbound"} {
		if err := client.CoreV1().Pods("probes").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(probePod("probe-b", "n1", true), probePod("probe-a", "n2", true), probePod("probe-b", "n2", true))
	pods, err := e.awaitProbes(t.Context(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range probeKinds {
		if len(pods[kind]) != 2 || !slices.ContainsFunc(nodes, func(n cluster.Node) bool { return pods[kind][n.Name].Name == kind+"-"+n.Name }) {
			t.Errorf("%s: %v", kind, pods[kind])
		}
	}
}
