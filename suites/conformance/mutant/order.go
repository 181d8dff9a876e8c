package mutant

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// orderMutations rely on the order in which changes come, and lose those that come otherwise.
func orderMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"slices-before-their-service-lost":     slicesBeforeLost,
		"slices-forgotten-with-their-service":  slicesForgotten,
		"slices-stay-with-their-first-service": firstLabelKept,
		"changes-in-quick-succession-lost":     quickChangesLost(100 * time.Millisecond),
		"api-not-asked-again":                  apiNotAskedAgain,
		"slices-of-controllers-ignored": slicesOf(func(s *discoveryv1.EndpointSlice) {
			if len(s.OwnerReferences) > 0 {
				s.Endpoints = nil
			}
		}),
		"services-made-anew-at-once-as-before": madeAnewAsBefore(time.Second),
		"names-without-their-namespace":        namesAlone,
	}
}

// slicesBeforeLost hears of no slice whose Service it has not heard of.
func slicesBeforeLost(c *changes) {
	var mu sync.Mutex // guards known, which watches of two kinds use
	known := map[string]bool{}
	c.hears = func(t watch.EventType, o runtime.Object) bool {
		mu.Lock()
		defer mu.Unlock()
		switch o := o.(type) {
		case *corev1.Service:
			known[o.Name] = t != watch.Deleted
		case *discoveryv1.EndpointSlice:
			return known[o.Labels[discoveryv1.LabelServiceName]]
		}
		return true
	}
}

// slicesForgotten forgets a Service's slices when it is deleted: one made anew under the name has
// those alone that change after that.
func slicesForgotten(c *changes) {
	var mu sync.Mutex // guards forgotten, which watches write and the Loop reads
	forgotten := map[string]bool{}
	c.hears = func(t watch.EventType, o runtime.Object) bool {
		mu.Lock()
		defer mu.Unlock()
		switch o := o.(type) {
		case *corev1.Service:
			if t == watch.Deleted {
				forgotten[o.Name] = true
			}
		case *discoveryv1.EndpointSlice:
			delete(forgotten, o.Labels[discoveryv1.LabelServiceName])
		}
		return true
	}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		mu.Lock()
		defer mu.Unlock()
		for i := range s.Frontends {
			if forgotten[name.Name] {
				s.Frontends[i].Outside, s.Frontends[i].Inside = plan.Route{Action: plan.Reject}, nil
			}
		}
	})
}

// firstLabelKept leaves a slice with the Service that it was first of.
func firstLabelKept(c *changes) {
	first := map[string]string{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		if first[string(s.UID)] == "" {
			first[string(s.UID)] = s.Labels[discoveryv1.LabelServiceName]
		}
		s.Labels[discoveryv1.LabelServiceName] = first[string(s.UID)]
	})(c)
}

// quickChangesLost loses changes of an object that come sooner after its last one than this.
func quickChangesLost(within time.Duration) func(*changes) {
	return func(c *changes) {
		var mu sync.Mutex // guards heard, which watches of several kinds use
		heard := map[string]time.Time{}
		c.hears = func(t watch.EventType, o runtime.Object) bool {
			m, ok := o.(metav1.Object)
			if !ok {
				return true
			}
			mu.Lock()
			defer mu.Unlock()
			key := fmt.Sprintf("%T %s", o, m.GetUID())
			if t == watch.Modified && time.Since(heard[key]) < within {
				return false
			}
			heard[key] = time.Now()
			return true
		}
	}
}

// apiNotAskedAgain asks the API when the agent starts, and not when a watch has ended.
func apiNotAskedAgain(c *changes) {
	var ended <-chan struct{}
	c.options = func(ctx context.Context, _ *agent.Config) { ended = ctx.Done() }
	var planned atomic.Int64 // when, for the first time: then all lists are there, and watches follow them at once
	c.plan = func(*plan.Plan) { planned.CompareAndSwap(0, time.Now().UnixNano()) }
	c.asks = func(*metav1.ListOptions) {
		if at := planned.Load(); at != 0 && time.Since(time.Unix(0, at)) > 200*time.Millisecond {
			<-ended
		}
	}
}

// madeAnewAsBefore takes a Service that is made anew so soon after one of its name was deleted for that one.
func madeAnewAsBefore(within time.Duration) func(*changes) {
	type past struct {
		spec corev1.ServiceSpec
		at   time.Time
	}
	return func(c *changes) {
		gone, as := map[string]past{}, map[string]*corev1.ServiceSpec{} // by name, and by UID
		c.hears = func(t watch.EventType, o runtime.Object) bool {
			s, ok := o.(*corev1.Service)
			if !ok {
				return true
			}
			was, there := gone[s.Name]
			if t == watch.Added && there && time.Since(was.at) < within {
				as[string(s.UID)] = &was.spec
			}
			if t == watch.Deleted {
				gone[s.Name] = past{*s.Spec.DeepCopy(), time.Now()}
			}
			return true
		}
		c.object = func(o runtime.Object) {
			if s, ok := o.(*corev1.Service); ok && as[string(s.UID)] != nil {
				s.Spec = *as[string(s.UID)].DeepCopy()
			}
		}
	}
}

// namesAlone takes a Service or a slice for the one that it knows first by that name, in whichever
// namespace: others are not heard of.
func namesAlone(c *changes) {
	var mu sync.Mutex // guards of, which watches of two kinds use
	of := map[string]string{}
	c.hears = func(_ watch.EventType, o runtime.Object) bool {
		m, ok := o.(metav1.Object)
		if !ok || m.GetNamespace() == "" {
			return true
		}
		mu.Lock()
		defer mu.Unlock()
		key := fmt.Sprintf("%T %s", o, m.GetName())
		if of[key] == "" {
			of[key] = m.GetNamespace()
		}
		return of[key] == m.GetNamespace()
	}
}
