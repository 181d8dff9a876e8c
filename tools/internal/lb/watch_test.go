package lb

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/service/helpers"
)

// twice is what a transform returns also when it is called with what it returned.
func twice[T any](t *testing.T, transform func(any) (any, error), in T) T {
	t.Helper()
	once, err := transform(in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := transform(once)
	if err != nil {
		t.Fatal(err)
	}
	return again.(T)
}

func TestOfClass(t *testing.T) {
	const ours, others = "example.com/ours", "example.com/others"
	cleanup := []string{helpers.LoadBalancerCleanupFinalizer}
	for _, c := range []struct {
		name, class string
		kind        v1.ServiceType
		finalizers  []string
		want        bool // for the service controller to serve or to clean up
	}{
		{"ours", ours, v1.ServiceTypeLoadBalancer, nil, true},
		{"another class", others, v1.ServiceTypeLoadBalancer, nil, false},
		{"no class", "", v1.ServiceTypeLoadBalancer, cleanup, false},
		{"a cloud's, to be cleaned up", "", v1.ServiceTypeClusterIP, cleanup, false},
		{"known", "", v1.ServiceTypeClusterIP, cleanup, true},
	} {
		svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: c.name, UID: types.UID(c.name), Finalizers: slices.Clone(c.finalizers)}}
		svc.Spec.Type = c.kind
		if c.class != "" {
			svc.Spec.LoadBalancerClass = new(c.class)
		}
		got := twice(t, ofClass(ours, "known"), svc)
		if seen := len(wanted([]*v1.Service{got})) == 1; seen != c.want {
			t.Errorf("%s: seen %t, want %t", c.name, seen, c.want)
		}
	}
}

// A Service that was ours, then of another class, is not ours to clean up after that one.
func TestAnotherClassEndsOurs(t *testing.T) {
	ours, others := "example.com/ours", "example.com/others"
	svc := func(kind v1.ServiceType, class *string) *v1.Service {
		out := &v1.Service{ObjectMeta: metav1.ObjectMeta{UID: "known", Finalizers: []string{helpers.LoadBalancerCleanupFinalizer}}}
		out.Spec.Type, out.Spec.LoadBalancerClass = kind, class
		return out
	}
	transform := ofClass(ours, "known")
	for _, c := range []struct {
		name string
		svc  *v1.Service
		want bool
	}{
		{"to be cleaned up", svc(v1.ServiceTypeNodePort, nil), true},
		{"of another class", svc(v1.ServiceTypeLoadBalancer, &others), false},
		{"to be cleaned up by that one", svc(v1.ServiceTypeNodePort, nil), false},
		{"ours again", svc(v1.ServiceTypeLoadBalancer, &ours), true},
		{"to be cleaned up again", svc(v1.ServiceTypeNodePort, nil), true},
	} {
		got := twice(t, transform, c.svc)
		if seen := len(wanted([]*v1.Service{got})) == 1; seen != c.want {
			t.Errorf("%s: seen %t, want %t", c.name, seen, c.want)
		}
	}
}

// An annotation that somebody made up hides nothing.
func TestSeenIsNotToBeMadeUp(t *testing.T) {
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{seenKey: "yes"}}}
	svc.Spec.Type = v1.ServiceTypeLoadBalancer
	if got := twice(t, ofClass("example.com/ours"), svc); len(wanted([]*v1.Service{got})) > 0 {
		t.Error("a Service without a class is served")
	}
}

func TestWithAddresses(t *testing.T) {
	node := &v1.Node{}
	node.Spec.ProviderID = "kind://docker/c/n"
	node.Status.Addresses = []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "fd00::1"}, {Type: v1.NodeHostName, Address: "n"}, {Type: v1.NodeInternalIP, Address: "10.0.0.1"},
	}
	if d := cmp.Diff("kind://docker/c/n at fd00::1,10.0.0.1", twice(t, withAddresses, node).Spec.ProviderID); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
