package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/watch"
)

const patience = 60 * time.Second

func service(name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{
		ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
}

func slice(name, service string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
	}}
}

// run starts a Watcher and returns what reaches the sink.
func run(t *testing.T, client kubernetes.Interface, events record.EventRecorder) <-chan []objects.Change {
	t.Helper()
	got := make(chan []objects.Change, 100)
	w := watch.New(watch.Config{
		Client: client, Node: "here", Sink: func(c []objects.Change) { got <- c },
		Events: events, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return got
}

func next(t *testing.T, got <-chan []objects.Change) []objects.Change {
	t.Helper()
	select {
	case c := <-got:
		return c
	case <-time.After(patience):
		t.Fatal("nothing reached the sink")
	}
	return nil
}

func describe(cs []objects.Change) string {
	var out []string
	for _, c := range cs {
		switch {
		case c.Service != nil:
			out = append(out, "service "+c.Service.Name.Name)
		case c.Slice != nil:
			out = append(out, "slice "+c.Slice.Name.Name+" of "+c.Slice.Service.Name)
		case c.Node != nil:
			out = append(out, fmt.Sprintf("node %s leaving=%t", c.Node.Name, c.Node.Leaving))
		case c.ServiceCIDR != nil:
			out = append(out, fmt.Sprintf("ranges %s %v", c.ServiceCIDR.Name, c.ServiceCIDR.Prefixes))
		case c.Gone != nil:
			out = append(out, fmt.Sprintf("gone %d %s of %s", c.Gone.Kind, c.Gone.Name.Name, c.Gone.Service.Name))
		}
	}
	return strings.Join(out, ", ")
}

// The first delivery has everything; after that each change comes by itself.
func TestFirstEverythingThenChanges(t *testing.T) {
	client := fake.NewClientset(service("a", "10.96.0.1"), service("b", "10.96.0.2"), slice("a-1", "a"), node("here"))
	got := run(t, client, record.NewFakeRecorder(10))
	first := next(t, got)
	if len(first) != 4 {
		t.Fatalf("first delivery is %s, want two Services, a slice and the node", describe(first))
	}
	api, ctx := client, t.Context()
	do := func(what string, err error, want string) {
		t.Helper()
		if err != nil {
			t.Fatal(what, err)
		}
		var text string
		for text = describe(next(t, got)); strings.Count(text, ",") < strings.Count(want, ","); text += ", " + describe(next(t, got)) {
		}
		if text != want {
			t.Errorf("%s: %q, want %q", what, text, want)
		}
	}
	_, err := api.CoreV1().Services("ns").Create(ctx, service("c", "10.96.0.3"), metav1.CreateOptions{})
	do("create", err, "service c")
	_, err = api.DiscoveryV1().EndpointSlices("ns").Update(ctx, slice("a-1", "b"), metav1.UpdateOptions{})
	do("move slice", err, "gone 2 a-1 of a, slice a-1 of b")
	err = api.DiscoveryV1().EndpointSlices("ns").Delete(ctx, "a-1", metav1.DeleteOptions{})
	do("delete slice", err, "gone 2 a-1 of b")
	err = api.CoreV1().Services("ns").Delete(ctx, "c", metav1.DeleteOptions{})
	do("delete", err, "gone 1 c of ")

	n := node("here")
	n.Labels = map[string]string{"heartbeat": "x"}
	if _, err = api.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Spec.Taints = []corev1.Taint{{Key: objects.ToBeDeletedTaint, Effect: corev1.TaintEffectNoSchedule}}
	_, err = api.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	do("taint, and before it a heartbeat that says nothing", err, "node here leaving=true")
}

// What a slice was written for is told of those that were written since the start.
func TestTriggered(t *testing.T) {
	written := func(name string, at time.Time) *discoveryv1.EndpointSlice {
		s := slice(name, "a")
		s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at.Format(time.RFC3339Nano)}
		return s
	}
	client := fake.NewClientset(node("here"), written("a-1", time.Now().Add(-time.Hour)), slice("a-2", "a"))
	got := run(t, client, record.NewFakeRecorder(10))
	for _, c := range next(t, got) {
		if !c.Triggered.IsZero() {
			t.Errorf("%s triggered at %s, before the start", describe([]objects.Change{c}), c.Triggered)
		}
	}
	at := time.Now()
	if _, err := client.DiscoveryV1().EndpointSlices("ns").Create(t.Context(), written("a-3", at), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := next(t, got); len(c) != 1 || !c[0].Triggered.Equal(at) {
		t.Errorf("%s triggered at %s, want %s", describe(c), c[0].Triggered, at)
	}
}

// Nothing is handed on while one of the lists is missing, whichever it is.
func TestNothingBeforeAllLists(t *testing.T) {
	for _, missing := range []string{"services", "endpointslices", "nodes", "servicecidrs"} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(service("a", "10.96.0.1"), slice("a-1", "a"), node("here"), ranges("kubernetes", "10.96.0.0/16"))
			allowed := make(chan struct{})
			client.PrependReactor("list", missing, func(k8stesting.Action) (bool, runtime.Object, error) {
				select {
				case <-allowed:
					return false, nil, nil
				default:
					return true, nil, fmt.Errorf("not now")
				}
			})
			got := run(t, client, record.NewFakeRecorder(10))
			select {
			case c := <-got:
				t.Fatalf("%s was handed on", describe(c))
			case <-time.After(500 * time.Millisecond): // a span in which nothing may happen
			}
			close(allowed)
			if first := next(t, got); len(first) != 4 {
				t.Errorf("first delivery is %s, want all four objects", describe(first))
			}
		})
	}
}

// The server is asked to leave out what belongs to others, and other nodes.
func TestSelectors(t *testing.T) {
	client := fake.NewClientset(node("here"))
	next(t, run(t, client, record.NewFakeRecorder(10)))
	seen := map[string]string{}
	for _, a := range client.Actions() {
		if l, ok := a.(k8stesting.ListAction); ok {
			r := l.GetListRestrictions()
			seen[a.GetResource().Resource] = r.Labels.String() + "|" + r.Fields.String()
		}
	}
	for resource, want := range map[string]string{
		"services":       "!service.kubernetes.io/service-proxy-name|",
		"endpointslices": "!service.kubernetes.io/headless|",
		"nodes":          "|metadata.name=here",
		"servicecidrs":   "|",
	} {
		if seen[resource] != want {
			t.Errorf("%s are listed with %q, want %q", resource, seen[resource], want)
		}
	}
}

// A bad address is told to the object's owner; the rest is used.
func TestUnusableObject(t *testing.T) {
	events := record.NewFakeRecorder(10)
	bad := slice("a-1", "a")
	bad.Endpoints = append(bad.Endpoints, discoveryv1.Endpoint{Addresses: []string{"127.0.0.1"}})
	client := fake.NewClientset(bad, node("here"))
	first := next(t, run(t, client, events))
	for _, c := range first {
		if c.Slice != nil && len(c.Slice.Endpoints) != 1 {
			t.Errorf("%d endpoints are used, want the good one", len(c.Slice.Endpoints))
		}
	}
	select {
	case e := <-events.Events:
		if !strings.Contains(e, "UnusableFields") || !strings.Contains(e, "127.0.0.1") {
			t.Errorf("event %q", e)
		}
	case <-time.After(patience):
		t.Error("no event")
	}
}

// One Event for as long as the reason stays the same, however often the object
// is updated; another reason is another Event, and so is the old one come back.
func TestComplainOnce(t *testing.T) {
	events := record.NewFakeRecorder(10)
	bad := func(label string, addrs ...string) *discoveryv1.EndpointSlice {
		s := slice("a-1", "a")
		s.Labels["version"] = label
		for _, a := range addrs {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
		}
		return s
	}
	client := fake.NewClientset(bad("0", "127.0.0.1"), node("here"))
	got := run(t, client, events)
	next(t, got)
	for i, s := range []*discoveryv1.EndpointSlice{
		bad("1", "127.0.0.1"), bad("2", "127.0.0.1"), bad("3", "127.0.0.2"), bad("4"), bad("5", "127.0.0.2"),
	} {
		if _, err := client.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(i, err)
		}
		next(t, got)
	}
	close(events.Events)
	var told []string
	for e := range events.Events {
		_, after, _ := strings.Cut(e, "address 127")
		told = append(told, "127"+strings.Fields(after)[0])
	}
	if text := strings.Join(told, " "); text != "127.0.0.1 127.0.0.2 127.0.0.2" {
		t.Errorf("events about %s, want one for each new reason: 127.0.0.1 127.0.0.2 127.0.0.2", text)
	}
}
