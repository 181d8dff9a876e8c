package watch

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/plumbline/plumbline/dataplane/objects"
)

func (w *Watcher) services() cache.ResourceEventHandler {
	set := func(s *corev1.Service) {
		out, err := objects.FromService(s)
		w.judge(objects.KindService, s, err)
		w.note(objects.Change{Service: &out})
	}
	return handler(set, nil, func(s *corev1.Service) {
		w.gone(objects.KindService, s, objects.Name{})
	})
}

func (w *Watcher) slices() cache.ResourceEventHandler {
	set := func(s *discoveryv1.EndpointSlice) {
		out, ok, err := objects.FromEndpointSlice(s)
		w.judge(objects.KindSlice, s, err)
		if ok {
			w.note(objects.Change{Slice: &out})
		}
	}
	moved := func(old, new *discoveryv1.EndpointSlice) {
		if serviceOf(old) != serviceOf(new) {
			w.note(gone(objects.KindSlice, old, serviceOf(old)))
		}
	}
	return handler(set, moved, func(s *discoveryv1.EndpointSlice) {
		w.gone(objects.KindSlice, s, serviceOf(s))
	})
}

func serviceOf(s *discoveryv1.EndpointSlice) objects.Name {
	return objects.Name{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
}

func (w *Watcher) nodes() cache.ResourceEventHandler {
	var last *objects.Node // a Node changes every few seconds, in what is not of interest
	set := func(n *corev1.Node) {
		out, err := objects.FromNode(n)
		w.judge(objects.KindNode, n, err)
		if last == nil || !last.Equal(out) {
			last = &out
			w.note(objects.Change{Node: &out})
		}
	}
	return handler(set, nil, func(n *corev1.Node) {
		last = nil
		w.gone(objects.KindNode, n, objects.Name{})
	})
}

func (w *Watcher) serviceCIDRs() cache.ResourceEventHandler {
	set := func(s *networkingv1.ServiceCIDR) {
		out, err := objects.FromServiceCIDR(s)
		w.judge(objects.KindServiceCIDR, s, err)
		w.note(objects.Change{ServiceCIDR: &out})
	}
	return handler(set, nil, func(s *networkingv1.ServiceCIDR) {
		w.gone(objects.KindServiceCIDR, s, objects.Name{})
	})
}

func gone(kind objects.Kind, o metav1.Object, service objects.Name) objects.Change {
	name := objects.Name{Namespace: o.GetNamespace(), Name: o.GetName()}
	return objects.Change{Gone: &objects.Gone{Kind: kind, Name: name, Service: service}}
}

// handler makes typed functions an informer's handler. before, if any, sees the
// old and the new state of an update first.
func handler[T metav1.Object](set func(T), before func(old, new T), del func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { set(obj.(T)) },
		UpdateFunc: func(old, obj any) {
			// A relist tells again of what is the same.
			if v := obj.(T).GetResourceVersion(); v != "" && v == old.(T).GetResourceVersion() {
				return
			}
			if before != nil {
				before(old.(T), obj.(T))
			}
			set(obj.(T))
		},
		DeleteFunc: func(obj any) {
			if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = missed.Obj
			}
			if o, ok := obj.(T); ok {
				del(o)
			}
		},
	}
}
