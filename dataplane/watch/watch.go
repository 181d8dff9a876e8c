// Package watch turns what the API server says into changes of objects. It is
// the only place of the dataplane that knows client-go.
//
//	Run: informers -> (conversion) -> []objects.Change -> Sink
//
// Nothing is handed on before Services, EndpointSlices and the own Node have all
// been listed: a dataplane that acted on a part of them would take live rules
// away. The first call of the sink carries everything, each later one what
// came since. While the API server does not answer, the sink hears nothing and
// the last state stands.
package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// selector leaves out, at the server, what belongs to other proxies (KEP-2447)
// and the slices of headless Services. An object whose label changes comes or
// goes by the watch.
const selector = "!" + objects.LabelProxyName + ",!" + objects.LabelHeadless

// Config is what a Watcher needs.
type Config struct {
	Client kubernetes.Interface
	Node   string // name of the own Node
	// Sink takes the changes, in order, never two calls at a time. It must not
	// block: it is called from the informers' delivery.
	Sink   func([]objects.Change)
	Events record.EventRecorder // for objects that cannot be used in full
	Logger *slog.Logger
}

// Watcher watches one cluster for one node.
type Watcher struct {
	cfg Config

	mu      sync.Mutex
	synced  bool             // guarded by mu
	pending []objects.Change // guarded by mu; what came before synced
	said    map[about]string // guarded by mu; the last complaint about an object
}

// about is the object of a complaint.
type about struct {
	kind objects.Kind
	name objects.Name
}

// New makes a Watcher that does nothing before Run.
func New(cfg Config) *Watcher { return &Watcher{cfg: cfg, said: map[about]string{}} }

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	selected := informers.NewSharedInformerFactoryWithOptions(w.cfg.Client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }),
		informers.WithTransform(withoutManagedFields))
	own := informers.NewSharedInformerFactoryWithOptions(w.cfg.Client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", w.cfg.Node).String()
		}),
		informers.WithTransform(withoutManagedFields))
	var delivered []cache.InformerSynced
	for _, in := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{selected.Core().V1().Services().Informer(), w.services()},
		{selected.Discovery().V1().EndpointSlices().Informer(), w.slices()},
		{own.Core().V1().Nodes().Informer(), w.nodes()},
	} {
		reg, err := in.informer.AddEventHandler(in.handler)
		if err != nil {
			return fmt.Errorf("watch for node %s: %w", w.cfg.Node, err)
		}
		// HasSynced of the registration, not of the informer: only the former
		// says that the handler has seen the whole first list.
		delivered = append(delivered, reg.HasSynced)
	}
	for _, f := range []informers.SharedInformerFactory{selected, own} {
		f.Start(ctx.Done())
		defer f.Shutdown()
	}
	if !cache.WaitForCacheSync(ctx.Done(), delivered...) {
		return nil // ctx ended first
	}
	w.release()
	<-ctx.Done()
	return nil
}

// withoutManagedFields halves the memory of the informers' stores.
func withoutManagedFields(obj any) (any, error) {
	if m, ok := obj.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

func (w *Watcher) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	w.cfg.Sink(w.pending)
	w.pending = nil
}

func (w *Watcher) note(c ...objects.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		w.pending = append(w.pending, c...)
		return
	}
	w.cfg.Sink(c)
}

type object interface {
	metav1.Object
	runtime.Object
}

// judge tells about an object that is used only in part, once for as long as the
// reason stays the same: slices are updated all the time. It is an Event, for the
// object's owner, and a line in the log, for the node's.
func (w *Watcher) judge(kind objects.Kind, obj object, err error) {
	at := aboutOf(kind, obj)
	if err == nil {
		w.forget(at)
		return
	}
	text := err.Error()
	w.mu.Lock()
	known := w.said[at] == text
	w.said[at] = text
	w.mu.Unlock()
	if known {
		return
	}
	w.cfg.Logger.Warn("object used only in part", "err", err)
	w.cfg.Events.Event(obj, corev1.EventTypeWarning, "UnusableFields", text)
}

func aboutOf(kind objects.Kind, o metav1.Object) about {
	return about{kind, objects.Name{Namespace: o.GetNamespace(), Name: o.GetName()}}
}

func (w *Watcher) forget(at about) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.said, at)
}

// gone forgets the complaints about an object and notes its end.
func (w *Watcher) gone(kind objects.Kind, o metav1.Object, service objects.Name) {
	w.forget(aboutOf(kind, o))
	w.note(gone(kind, o, service))
}

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
