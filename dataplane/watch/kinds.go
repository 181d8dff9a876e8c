package watch

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// source is a kind of objects: what the server is asked for, and what is done with it. Its lists
// are of *item.
type source struct {
	ask  cache.ListerWatcher
	typ  object // an object of the kind
	into *store
}

type (
	watchInterface = watch.Interface
	watchFunc      = func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

func (w *Watcher) store(kind objects.Kind, read func(any) item) *store {
	return &store{w: w, kind: kind, read: read, all: map[objects.Name]known{}}
}

func (w *Watcher) services() source {
	api := w.cfg.Client.CoreV1().Services(metav1.NamespaceAll)
	into := w.store(objects.KindService, func(obj any) item {
		out, err := objects.FromService(obj.(*corev1.Service))
		return item{change: objects.Change{Service: &out}, usable: true, unfit: err}
	})
	return source{listWatch(w.cfg.Client, into, ourServices, "", api.List, api.Watch), &corev1.Service{}, into}
}

func (w *Watcher) slices() source {
	api := w.cfg.Client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll)
	into := w.store(objects.KindSlice, func(obj any) item {
		s := obj.(*discoveryv1.EndpointSlice)
		out, ok, err := objects.FromEndpointSlice(s)
		triggered := objects.Triggered(s)
		if triggered.Before(w.begun) { // and was not waited for
			triggered = time.Time{}
		}
		return item{change: objects.Change{Slice: &out, Triggered: triggered}, service: out.Service, usable: ok, unfit: err}
	})
	return source{listWatch(w.cfg.Client, into, ourSlices, "", api.List, api.Watch), &discoveryv1.EndpointSlice{}, into}
}

func (w *Watcher) nodes() source {
	api := w.cfg.Client.CoreV1().Nodes()
	own := fields.OneTermEqualSelector("metadata.name", w.cfg.Node).String()
	s := w.store(objects.KindNode, func(obj any) item {
		out, err := objects.FromNode(obj.(*corev1.Node))
		return item{change: objects.Change{Node: &out}, usable: true, unfit: err}
	})
	// It changes every few seconds, in what is not of interest.
	s.same = func(was, now objects.Change) bool { return was.Node.Equal(*now.Node) }
	return source{listWatch(w.cfg.Client, s, "", own, api.List, api.Watch), &corev1.Node{}, s}
}

func (w *Watcher) serviceCIDRs() source {
	api := w.cfg.Client.NetworkingV1().ServiceCIDRs()
	into := w.store(objects.KindServiceCIDR, func(obj any) item {
		out, err := objects.FromServiceCIDR(obj.(*networkingv1.ServiceCIDR))
		return item{change: objects.Change{ServiceCIDR: &out}, usable: true, unfit: err}
	})
	return source{listWatch(w.cfg.Client, into, "", "", api.List, api.Watch), &networkingv1.ServiceCIDR{}, into}
}

// reference is what an Event is about.
func reference(kind objects.Kind, o object) *corev1.ObjectReference {
	names := map[objects.Kind][2]string{
		objects.KindService: {"v1", "Service"}, objects.KindSlice: {"discovery.k8s.io/v1", "EndpointSlice"},
		objects.KindNode: {"v1", "Node"}, objects.KindServiceCIDR: {"networking.k8s.io/v1", "ServiceCIDR"},
	}
	return &corev1.ObjectReference{
		APIVersion: names[kind][0], Kind: names[kind][1], Namespace: o.GetNamespace(), Name: o.GetName(),
		UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}
}
