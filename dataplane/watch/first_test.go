package watch

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// The first call has all lists that are waited for: neither what comes between them nor a list
// that is not (ServiceCIDRs that are to be seen later) stands for one of them.
func TestFirstCall(t *testing.T) {
	var calls []int
	w := New(Config{Sink: func(c []objects.Change) { calls = append(calls, len(c)) }})
	w.missing = map[objects.Kind]bool{objects.KindService: true, objects.KindSlice: true, objects.KindNode: true}
	some := func(n int) []objects.Change { return make([]objects.Change, n) }
	for _, do := range []func(){
		func() { w.list(objects.KindServiceCIDR, some(1)) },
		func() { w.list(objects.KindService, some(2)) },
		func() { w.note(some(4)...) },
		func() { w.list(objects.KindService, some(8)) }, // its watch expired
		func() { w.list(objects.KindNode, some(16)) },
	} {
		if do(); len(calls) > 0 {
			t.Fatalf("called with %d changes before all lists are in", calls)
		}
	}
	w.list(objects.KindSlice, nil)
	w.list(objects.KindSlice, nil) // nothing new
	w.note(some(1)...)
	if diff := cmp.Diff([]int{31, 1}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	w.ended = true
	if w.note(some(1)...); len(calls) > 2 {
		t.Error("called after the end")
	}
}

// Of a page as it came nothing is kept, while the items made of it are.
func TestPageIsLetGo(t *testing.T) {
	w := New(Config{Client: fake.NewClientset()})
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{discoveryv1.LabelServiceName: "a"}}
	var service weak.Pointer[corev1.Service]
	services := listWatch(nil, w.services().into, "", "", func(context.Context, metav1.ListOptions) (*corev1.ServiceList, error) {
		l := &corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"}, Ports: []corev1.ServicePort{{Port: 80}},
		}}}}
		service = weak.Make(&l.Items[0])
		return l, nil
	}, nil)
	var slice weak.Pointer[discoveryv1.EndpointSlice]
	slices := listWatch(nil, w.slices().into, "", "", func(context.Context, metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
		l := &discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{{
			ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		}}}
		slice = weak.Make(&l.Items[0])
		return l, nil
	}, nil)
	kept := []any{}
	for _, ask := range []cache.ListerWatcher{services, slices} {
		l, err := cache.ToListerWatcherWithContext(ask).ListWithContext(t.Context(), metav1.ListOptions{Limit: pageSize})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, l)
	}
	runtime.GC()
	if service.Value() != nil || slice.Value() != nil {
		t.Errorf("kept: the Service %t, the slice %t", service.Value() != nil, slice.Value() != nil)
	}
	runtime.KeepAlive(kept)
}
