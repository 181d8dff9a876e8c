// Package watch turns what the API server says into changes of objects. It is
// the only place of the dataplane that knows client-go.
//
//	Run: informers -> (conversion) -> []objects.Change -> Sink
//
// Nothing is handed on before Services, EndpointSlices, the own Node and, where
// the cluster has them, ServiceCIDRs have all been listed: a dataplane that acted
// on a part of them would take live rules away. The first call of the sink carries
// everything, each later one what came since. While the API server does not
// answer, or a list breaks off, the sink hears nothing and the last state stands.
//
// Whether there are ServiceCIDRs is asked once, at the start. The sink is never
// called twice at a time, whatever number of goroutines the informers have.
package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// What is left out at the server: the Services of other proxies (KEP-2447) and
// the slices of headless Services. The former label is copied to slices, later
// than it is set: it decides on Services alone. An object whose label changes
// comes or goes by the watch.
const (
	ourServices = "!" + objects.LabelProxyName
	ourSlices   = "!" + objects.LabelHeadless
)

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

func (w *Watcher) factory(only func(*metav1.ListOptions)) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(w.cfg.Client, 0,
		informers.WithTweakListOptions(only), informers.WithTransform(slim))
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	ours := w.factory(func(o *metav1.ListOptions) { o.LabelSelector = ourServices })
	filled := w.factory(func(o *metav1.ListOptions) { o.LabelSelector = ourSlices })
	all := w.factory(func(*metav1.ListOptions) {})
	own := w.factory(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", w.cfg.Node).String()
	})
	sources := []source{
		{ours.Core().V1().Services().Informer(), w.services()},
		{filled.Discovery().V1().EndpointSlices().Informer(), w.slices()},
		{own.Core().V1().Nodes().Informer(), w.nodes()},
	}
	if w.mayListServiceCIDRs(ctx) {
		sources = append(sources, source{all.Networking().V1().ServiceCIDRs().Informer(), w.serviceCIDRs()})
	}
	var delivered []cache.InformerSynced
	for _, s := range sources {
		reg, err := s.informer.AddEventHandler(s.handler)
		if err != nil {
			return fmt.Errorf("watch for node %s: %w", w.cfg.Node, err)
		}
		// HasSynced of the registration, not of the informer: only the former
		// says that the handler has seen the whole first list.
		delivered = append(delivered, reg.HasSynced)
	}
	for _, f := range []informers.SharedInformerFactory{ours, filled, own, all} {
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

// source is a kind of objects and what is done with them.
type source struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// askAgain is the pause after a question that the API server did not answer.
const askAgain = time.Second

// mayListServiceCIDRs asks for a first ServiceCIDR. Kubernetes has them since 1.33
// (KEP-1880). Without them, or without the right to see them, addresses that no
// Service has are not dropped, and all else is the same: that is no reason not to
// start. A server that does not answer is asked again: then nothing can be listed.
func (w *Watcher) mayListServiceCIDRs(ctx context.Context) bool {
	for said := false; ; said = true {
		_, err := w.cfg.Client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err == nil:
			return true
		case apierrors.IsNotFound(err):
			w.cfg.Logger.Info("the API server has no ServiceCIDRs: addresses that no Service has are not dropped")
			return false
		case apierrors.IsForbidden(err):
			w.cfg.Logger.Warn("ServiceCIDRs may not be listed: addresses that no Service has are not dropped", "err", err)
			return false
		case ctx.Err() != nil:
			return false
		case !said:
			w.cfg.Logger.Warn("the API server does not say whether it has ServiceCIDRs, asking again every second", "err", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(askAgain):
		}
	}
}

// slim drops what nothing here reads, which is most of what the informers' stores
// would hold.
func slim(obj any) (any, error) {
	if m, ok := obj.(metav1.Object); ok {
		m.SetManagedFields(nil)
		m.SetOwnerReferences(nil)
	}
	if s, ok := obj.(*discoveryv1.EndpointSlice); ok {
		s.Annotations = nil
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			e.TargetRef, e.Zone, e.Hostname, e.DeprecatedTopology = nil, nil, nil, nil
		}
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
