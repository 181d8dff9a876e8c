package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/conformance/cell"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// Namespace holds the objects of all behaviours of a run; their names keep them apart.
func Namespace(run cluster.Run) string { return run.Namespace("conformance") }

// Limit is how late a dataplane may follow a change, where a run does not say otherwise: no
// document promises a number, and upstream's e2e tests allow as much (KubeProxyEndpointLagTimeout
// of test/e2e/framework/service). What it took is reported; one that needs more is reported
// as not having followed.
const Limit = 30 * time.Second

// limit is Limit, or what the behaviour allows. A run's own limit stretches or shortens
// both alike.
func (s *Spec) limit() time.Duration {
	stretch := cmp.Or(s.env.cfg.Limit, Limit).Seconds() / Limit.Seconds()
	return time.Duration(float64(max(Limit, s.allowed)) * stretch)
}

// Allow lets the dataplane follow later than Limit, where others have a pace of their
// own that it depends on, such as the checks of a load balancer.
func (s *Spec) Allow(d time.Duration) { s.allowed = d }

// Spec is what the function of one behaviour works with, for one IP family. It
// must not be used by two goroutines. Whatever fails ends the function.
type Spec struct {
	Family    corev1.IPFamily
	Nodes     []*Node // those that take pods, in the order of their names from one on that id and seed draw
	env       *Env
	ctx       context.Context
	id        string
	serial    int
	began     time.Time
	at        time.Time       // of the last change of an object
	allowed   time.Duration   // see Allow
	held      map[string]bool // expectations that held since then
	good      []asking        // the same, to be asked again when the behaviour is over
	attempts  int
	delay     time.Duration // longest from a change until an expectation held
	said      []string      // what was seen, for the report
	streams   []Stream      // of Throughout
	files     []string      // evidence
	last      trial
	steps     []step               // that were made so far
	printed   string               // by nodes that were asked for evidence
	beyonds   map[netip.Addr]*Node // the routers of hosts outside, by their addresses
	services  []*Service           // in the order they were made
	cells     map[cell.Cell]bool   // that attempts were in
	lastCells []cell.Cell          // of the last one
	planned   *planned             // nil: attempts are made
	datagrams bool                 // some were sent
	ends      []func() error
	together  *together     // with whom it shares what it does to the cluster
	kept      time.Duration // waiting for them
	acted     time.Time     // when the last act began
}

// spec is what a behaviour works with in a family.
func (e *Env) spec(ctx context.Context, b Behaviour, f corev1.IPFamily, with *together) *Spec {
	return &Spec{together: with, Family: f, Nodes: e.turned(b.ID), env: e, ctx: ctx, id: b.ID, began: time.Now(), at: time.Now(), beyonds: map[netip.Addr]*Node{}, held: map[string]bool{}, cells: map[cell.Cell]bool{}}
}

// turned are the nodes from one on that a behaviour's id and the run's seed draw, so that
// none is always the client's.
func (e *Env) turned(id string) []*Node {
	if len(e.nodes) == 0 {
		return nil
	}
	h := fnv.New64a()
	fmt.Fprint(h, id, e.cfg.Seed)
	first := rand.New(rand.NewPCG(h.Sum64(), 0)).IntN(len(e.nodes))
	return slices.Concat(e.nodes[first:], e.nodes[:first])
}

// outcome is how a function ended early.
type outcome struct {
	result  conformance.Result // ResultFail, ResultInconclusive
	reason  string
	unsound bool // as of a Result
	apart   bool // as of a Result
}

// name is an object's name that no other behaviour has.
func (s *Spec) name(what string) string {
	name := s.id + "-" + what
	if s.Family == corev1.IPv6Protocol {
		name += "-6"
	}
	return name
}

// Fail ends the behaviour: the dataplane does not keep the promise.
func (s *Spec) Fail(format string, args ...any) {
	panic(outcome{result: ResultFail, reason: fmt.Sprintf(format, args...)})
}

// Inconclusive ends the behaviour: nothing can be said of the dataplane.
func (s *Spec) Inconclusive(format string, args ...any) {
	panic(outcome{result: ResultInconclusive, reason: fmt.Sprintf(format, args...), unsound: true})
}

// must ends the behaviour if the harness could not do something.
func (s *Spec) must(err error, format string, args ...any) {
	if err != nil {
		s.Inconclusive("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// Say notes what was seen, for the report.
func (s *Spec) Say(format string, args ...any) { s.said = append(s.said, fmt.Sprintf(format, args...)) }

// Context ends with the run.
func (s *Spec) Context() context.Context { return s.ctx }

// changed notes that from now the dataplane has something to follow.
func (s *Spec) changed() {
	s.at, s.held, s.good = time.Now(), map[string]bool{}, nil
	if s.planned != nil {
		s.planned.state++
	}
}

// onEnd has f called when the behaviour has ended, last first.
func (s *Spec) onEnd(f func() error) { s.ends = append(s.ends, f) }

// onEndOnce has f called when the behaviour has ended, unless what it returns was
// called before.
func (s *Spec) onEndOnce(f func() error) func() error {
	var once sync.Once
	var err error
	call := func() error {
		once.Do(func() { err = f() })
		return err
	}
	s.onEnd(call)
	return call
}

// end undoes what the behaviour made.
func (s *Spec) end() error {
	var all error
	for _, f := range slices.Backward(s.ends) {
		all = errors.Join(all, f())
	}
	return all
}

func (s *Spec) deleteService(name string) error {
	ctx := context.WithoutCancel(s.ctx)
	err := s.env.client.DiscoveryV1().EndpointSlices(s.env.namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	gone := s.env.client.CoreV1().Services(s.env.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(gone) {
		gone = nil
	}
	return errors.Join(err, gone)
}

// Delete deletes the Service, and its slices with it.
func (v *Service) Delete() {
	v.spec.must(v.spec.deleteService(v.obj.Name), "delete Service %s", v.obj.Name)
	v.deleted = true
	v.spec.did(handDeleteService(v.obj.Name), "deleted Service %s, and its slices", v.obj.Name)
	v.spec.changed()
}

// retry hands f the Service as it is now, again if somebody else has written it
// meanwhile.
func (v *Service) retry(f func(*corev1.Service) error) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		o, err := v.spec.env.client.CoreV1().Services(v.spec.env.namespace).Get(v.spec.ctx, v.obj.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return f(o)
	})
}

func (s *Spec) putSlice(slice *discoveryv1.EndpointSlice) error {
	client := s.env.client.DiscoveryV1().EndpointSlices(s.env.namespace)
	_, err := client.Create(s.ctx, slice, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := client.Get(s.ctx, slice.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		slice.ResourceVersion = now.ResourceVersion
		_, err = client.Update(s.ctx, slice, metav1.UpdateOptions{})
		return err
	})
}

// Node is a node with a probe in its own network and two pods.
type Node struct {
	Name, Zone string
	Client            // in the node's own network
	A, B       *Pod   // ordinary pods
	NetNS      string // path of its network namespace; empty if out of reach
}

// Pods are both.
func (n *Node) Pods() []*Pod { return []*Pod{n.A, n.B} }

// Pod is an ordinary pod, client and server.
type Pod struct {
	Client
	Node *Node
}

// Ready is the pod as a ready endpoint.
func (p *Pod) Ready() Endpoint { return endpoint(p.Client, p.Node.Name, true, true, false) }

// NotReady is the pod as one that is not ready.
func (p *Pod) NotReady() Endpoint { return endpoint(p.Client, p.Node.Name, false, false, false) }

// Draining is the pod as one that ends and still serves.
func (p *Pod) Draining() Endpoint { return endpoint(p.Client, p.Node.Name, false, true, true) }

// Ending is the pod as one that ends and does not serve.
func (p *Pod) Ending() Endpoint { return endpoint(p.Client, p.Node.Name, false, false, true) }

// Ready is the node's own probe, as a pod in the node's network would be.
func (n *Node) Ready() Endpoint { return endpoint(n.Client, n.Name, true, true, false) }
