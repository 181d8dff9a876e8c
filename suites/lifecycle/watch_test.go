package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func pod(version string, mutate ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: version, Labels: map[string]string{"app": "life"}}}
	p.Status.Phase = corev1.PodPending
	for _, m := range mutate {
		m(p)
	}
	return p
}

func runs(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.PodIPs = []corev1.PodIP{{IP: "192.0.2.1"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func ready(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func unready(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "of no concern"}}
}

func deleting(p *corev1.Pod) {
	grace := int64(3)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{}, &grace
}

func slice(version string, endpoints ...discoveryv1.EndpointConditions) *discoveryv1.EndpointSlice {
	es := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{UID: "s", ResourceVersion: version, Labels: map[string]string{discoveryv1.LabelServiceName: "life"}}}
	for _, c := range endpoints {
		es.Endpoints = append(es.Endpoints, discoveryv1.Endpoint{Conditions: c, TargetRef: &corev1.ObjectReference{Name: "p"}})
	}
	return es
}

// What two watches show becomes what has changed, with both in the API's order.
func TestObserver(t *testing.T) {
	yes, no := true, false
	var running []string
	o := newObserver(func(life, pod string) { running = append(running, life+"/"+pod) })
	for i, ev := range []watch.Event{
		{Type: watch.Added, Object: pod("10")},
		{Type: watch.Modified, Object: pod("12", runs)},
		{Type: watch.Modified, Object: pod("15", runs, ready)},
		{Type: watch.Added, Object: slice("14", discoveryv1.EndpointConditions{Ready: &no, Serving: &no})},
		{Type: watch.Modified, Object: slice("16", discoveryv1.EndpointConditions{})},
		{Type: watch.Modified, Object: pod("17", runs, ready, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })},
		{Type: watch.Modified, Object: pod("18", runs, unready, deleting)},
		{Type: watch.Modified, Object: slice("19", discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes})},
		{Type: watch.Modified, Object: pod("20", runs, deleting)},
		{Type: watch.Modified, Object: slice("21")},
		{Type: watch.Deleted, Object: pod("22", runs, deleting)},
	} {
		if err := o.take(ev, int64(1e9+i*1e6)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := o.pods("life"), []string{"p"}; !cmp.Equal(got, want) {
		t.Errorf("pods %v, want %v", got, want)
	}
	var out strings.Builder
	if err := Write(&out, "", []Run{{{"life", tidy(o.close("life", 1e9), []string{"pod"})}}}); err != nil {
		t.Fatal(err)
	}
	want := `# 

run 1 life life
  +0.000s   1  pod  object                             made
  +0.000s   1  pod  phase                              Pending
  +0.001s   2  pod  phase                              Running
  +0.001s   2  pod  address                            given
  +0.001s   2  pod  container                          running
  +0.001s   2  pod  container.ready                    false
  +0.001s   2  pod  container.started                  false
  +0.001s   2  pod  container.restarts                 0
  +0.002s   4  pod  condition.Ready                    True
  +0.003s   3  pod  endpoint                           none
  +0.004s   5  pod  endpoint                           ready serving
  +0.006s   6  pod  object                             deleting, grace 3
  +0.006s   6  pod  condition.Ready                    False ContainersNotReady
  +0.007s   7  pod  endpoint                           serving terminating
  +0.008s   8  pod  condition.Ready                    gone
  +0.009s   9  pod  endpoint                           gone
  +0.010s  10  pod  object                             gone
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"life/p"}, running); diff != "" {
		t.Errorf("seen running (-want +got):\n%s", diff)
	}
	if err := o.take(watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "too old"}}, 0); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("a watch that lost events: %v", err)
	}
}

func TestLinesOfAProgram(t *testing.T) {
	var got []Event
	log := "flag provided but not defined\n{\"event\":\"listening\",\"mono\":7,\"pod\":\"x\"}\n{\"other\":1}\n"
	if err := lines(strings.NewReader(log), "p", func(e Event) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Event{{At: 7, Pod: "p", Facet: facetProgram, Value: "listening"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
