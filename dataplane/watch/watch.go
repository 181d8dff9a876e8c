// Package watch turns what the API server says into changes of objects. It is
// the only place of the dataplane that knows client-go.
//
//	Run: reflectors -> store (conversion) -> []objects.Change -> Sink
//
// Objects are converted one by one as they come in (WatchList, KEP-3157) and let go: neither a
// list nor a store of them is ever whole in memory. A server that does not stream its lists is
// asked for pages of them.
//
// Nothing is handed on before Services, EndpointSlices, the own Node and, where
// the cluster has them, ServiceCIDRs have all been listed: a dataplane that acted
// on a part of them would take live rules away. The first call of the sink carries
// everything, each later one what came since. While the API server does not
// answer, or a list breaks off, the sink hears nothing and the last state stands.
//
// Whether there are ServiceCIDRs is asked at the start and, without any, every ten minutes. The
// sink is never called twice at a time, whatever number of goroutines the reflectors have.
package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	// block: it is called from the reflectors' delivery.
	Sink   func([]objects.Change)
	Events record.EventRecorder // for objects that cannot be used in full
	Logger *slog.Logger
}

// Watcher watches one cluster for one node.
type Watcher struct {
	cfg   Config
	begun time.Time // const

	mu      sync.Mutex
	missing map[objects.Kind]bool // guarded by mu; whose first lists are waited for
	synced  bool                  // guarded by mu; the sink has been called
	ended   bool                  // guarded by mu; and is called no more
	pending []objects.Change      // guarded by mu; what came before
	said    map[about]string      // guarded by mu; the last complaint about an object
}

// about is the object of a complaint.
type about struct {
	kind objects.Kind
	name objects.Name
}

// New makes a Watcher that does nothing before Run.
func New(cfg Config) *Watcher {
	return &Watcher{cfg: cfg, begun: time.Now(), said: map[about]string{}, missing: map[objects.Kind]bool{}}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	sources := []source{w.services(), w.slices(), w.nodes()}
	ranges := w.mayListServiceCIDRs(ctx, w.cfg.Logger)
	if ranges {
		sources = append(sources, w.serviceCIDRs())
	}
	w.mu.Lock()
	for _, s := range sources {
		w.missing[s.into.kind] = true
	}
	w.mu.Unlock()
	for _, s := range sources {
		go s.follow(ctx)
	}
	if !ranges {
		go w.awaitServiceCIDRs(ctx)
	}
	<-ctx.Done() // a Reflector may be in the middle of a pause that nothing ends
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	return nil
}

func (s source) follow(ctx context.Context) {
	r := cache.NewReflectorWithOptions(s.ask, s.typ, s.into, cache.ReflectorOptions{Name: fmt.Sprintf("%T", s.typ)})
	r.WatchListPageSize = pageSize // of lists, whatever its name says
	r.RunWithContext(ctx)
}

// askLater is the pause between two questions whether there are ServiceCIDRs by now.
const askLater = 10 * time.Minute

// awaitServiceCIDRs follows them once there are some to be seen: the API server is a newer one,
// or the right was given.
func (w *Watcher) awaitServiceCIDRs(ctx context.Context) {
	quiet := slog.New(slog.DiscardHandler)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(askLater):
		}
		if w.mayListServiceCIDRs(ctx, quiet) {
			w.cfg.Logger.Info("ServiceCIDRs can be listed by now: addresses that no Service has are dropped")
			w.serviceCIDRs().follow(ctx)
			return
		}
	}
}

// askAgain is the pause after a question that the API server did not answer.
const askAgain = time.Second

// mayListServiceCIDRs asks for a first ServiceCIDR. Kubernetes has them since 1.33
// (KEP-1880). Without them, or without the right to see them, addresses that no
// Service has are not dropped, and all else is the same: that is no reason not to
// start. A server that does not answer is asked again: then nothing can be listed.
func (w *Watcher) mayListServiceCIDRs(ctx context.Context, log *slog.Logger) bool {
	for said := false; ; said = true {
		_, err := w.cfg.Client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err == nil:
			return true
		case apierrors.IsNotFound(err):
			log.Info("the API server has no ServiceCIDRs: addresses that no Service has are not dropped")
			return false
		case apierrors.IsForbidden(err):
			log.Warn("ServiceCIDRs may not be listed: addresses that no Service has are not dropped", "err", err)
			return false
		case ctx.Err() != nil:
			return false
		case !said:
			log.Warn("the API server does not say whether it has ServiceCIDRs, asking again every second", "err", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(askAgain):
		}
	}
}

// list hands a list of a kind on, the first ones together.
func (w *Watcher) list(kind objects.Kind, changes []objects.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.missing, kind)
	w.handOn(changes)
}

func (w *Watcher) note(changes ...objects.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handOn(changes)
}

// handOn hands changes on, when all lists are in. It is called with mu held.
func (w *Watcher) handOn(changes []objects.Change) {
	w.pending = append(w.pending, changes...)
	if w.ended || len(w.missing) > 0 || w.synced && len(changes) == 0 {
		return
	}
	w.synced = true
	w.cfg.Sink(w.pending)
	w.pending = nil
}

type object interface {
	metav1.Object
	runtime.Object
}

// judge tells about an object that is used only in part, once for as long as the
// reason stays the same: slices are updated all the time. It is an Event, for the
// object's owner, and a line in the log, for the node's.
func (w *Watcher) judge(at about, i *item) {
	if i.unfit == nil {
		w.forget(at)
		return
	}
	text := i.unfit.Error()
	w.mu.Lock()
	known := w.said[at] == text
	w.said[at] = text
	w.mu.Unlock()
	if known {
		return
	}
	w.cfg.Logger.Warn("object used only in part", "err", i.unfit)
	w.cfg.Events.Event(i.ref, corev1.EventTypeWarning, "UnusableFields", text)
}

func (w *Watcher) forget(at about) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.said, at)
}
