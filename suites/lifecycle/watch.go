package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/record"
)

// observer keeps what is seen of all lives of a namespace. A life is known by the
// label app of its pods, which is the name of its Service.
type observer struct {
	running func(life, pod string) // a container has been seen running for the first time

	mu     sync.Mutex                 // guards all below
	facets map[string]map[seen]string // by object
	events map[string][]Event         // by life; At is record.Now, Pod its name
	last   map[string]int64           // stamp of the last event, by life
	closed map[string]bool            // lives that are over
	ran    map[string]bool            // containers that were seen running, by id
}

func newObserver(running func(life, pod string)) *observer {
	return &observer{running: running, facets: map[string]map[seen]string{}, events: map[string][]Event{}, last: map[string]int64{}, closed: map[string]bool{}, ran: map[string]bool{}}
}

// watch observes a namespace until ctx ends. A watch that ends by itself is an
// error: what it missed cannot be told. Started is closed when both have begun.
func (o *observer) watch(ctx context.Context, client kubernetes.Interface, namespace string, started chan<- struct{}) error {
	pods, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	defer pods.Stop()
	slices, err := client.DiscoveryV1().EndpointSlices(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch endpoint slices: %w", err)
	}
	defer slices.Stop()
	close(started)
	for {
		var ev watch.Event
		var open bool
		select {
		case ev, open = <-pods.ResultChan():
		case ev, open = <-slices.ResultChan():
		case <-ctx.Done():
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case !open:
			return errors.New("a watch of pods or endpoint slices has ended")
		}
		if err := o.take(ev, record.Now()); err != nil {
			return err
		}
	}
}

// version is an object as a watch showed it.
type version struct {
	life, key, resource string
	at                  int64
	facets              []seen
	last                bool // the object is gone
}

// seen is a facet of a pod with its value.
type seen struct{ pod, facet, value string }

func (o *observer) take(ev watch.Event, now int64) error {
	v := version{at: now, last: ev.Type == watch.Deleted}
	switch obj := ev.Object.(type) {
	case *corev1.Pod:
		v.life, v.key, v.resource = obj.Labels["app"], "pod/"+string(obj.UID), obj.ResourceVersion
		for _, f := range podFacets(obj) {
			v.facets = append(v.facets, seen{obj.Name, f.name, f.value})
		}
		o.note(obj)
		if v.last {
			v.facets = []seen{{obj.Name, facetObject, "gone"}}
		}
	case *discoveryv1.EndpointSlice:
		v.life, v.key, v.resource = obj.Labels[discoveryv1.LabelServiceName], "slice/"+string(obj.UID), obj.ResourceVersion
		for _, ep := range obj.Endpoints {
			if ep.TargetRef != nil && !v.last {
				v.facets = append(v.facets, seen{ep.TargetRef.Name, facetEndpoint, endpointState(ep.Conditions)})
			}
		}
		v.last = false // that its endpoints are gone is to be told
	default:
		return fmt.Errorf("watch pods and endpoint slices: %w", apierrors.FromObject(ev.Object))
	}
	return o.tell(v)
}

// note looks for a container that runs and did not before.
func (o *observer) note(p *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil && !o.ran[c.ContainerID] {
			o.ran[c.ContainerID] = true
			o.running(p.Labels["app"], p.Name)
		}
	}
}

// tell tells what is other than in the version before.
func (o *observer) tell(v version) error {
	step, err := strconv.ParseUint(v.resource, 10, 64)
	if err != nil {
		return fmt.Errorf("order changes by their resource version: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before, now := o.facets[v.key], map[seen]string{}
	add := func(s seen) {
		o.add(v.life, Event{At: time.Duration(v.at), Step: step, Pod: s.pod, Facet: s.facet, Value: s.value})
	}
	for _, s := range v.facets {
		id := seen{pod: s.pod, facet: s.facet}
		now[id] = s.value
		if old, known := before[id]; known && old == s.value {
			continue
		}
		add(s)
	}
	for id := range before {
		if _, there := now[id]; !there && !v.last {
			id.value = "gone"
			add(id)
		}
	}
	o.facets[v.key] = now
	return nil
}

// add adds an event to its life, unless that is over. mu is held.
func (o *observer) add(life string, e Event) {
	if o.closed[life] {
		return
	}
	o.events[life] = append(o.events[life], e)
	o.last[life] = max(o.last[life], record.Now())
}

// said adds what a program said of itself.
func (o *observer) said(life string, e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(life, e)
}

// count is how often a facet was seen to take a value.
func (o *observer) count(life, facet, value string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events[life] {
		if e.Facet == facet && e.Value == value {
			n++
		}
	}
	return n
}

// idle is for how long nothing has happened in a life.
func (o *observer) idle(life string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Duration(record.Now() - o.last[life])
}

// close ends a life and returns what happened, stamped from its beginning.
func (o *observer) close(life string, began int64) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed[life] = true
	out := o.events[life]
	for i := range out {
		out[i].At -= time.Duration(began)
	}
	return out
}

// pods are those of a life, in the order in which they were made.
func (o *observer) pods(life string) (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events[life] {
		if e.Facet == facetObject && e.Value == "made" {
			names = append(names, e.Pod)
		}
	}
	return names
}
