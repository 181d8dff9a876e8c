package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// world is a Target and HealthChecks that write down what they are told.
type world struct {
	mu    sync.Mutex // guards start and log
	start time.Time
	log   []string
	took  time.Duration // of an Apply
	fail  int           // the next so many fail
	no    map[plan.Key]error
	ports []uint16 // of the health checks
}

func (w *world) Apply(_ context.Context, old, new *plan.Plan) error {
	kind := "change"
	if old == nil {
		kind = "complete"
	}
	c := plan.Diff(old, new)
	w.note("%s set=%d gone=%d of %d", kind, len(c.Set), len(c.Gone), len(new.Services))
	time.Sleep(w.took)
	if w.fail > 0 {
		w.fail--
		return errors.New("kernel says no")
	}
	refused := &plan.Refused{Frontends: map[plan.Key]error{}}
	for _, f := range c.Set {
		if err := w.no[f.Key]; err != nil {
			refused.Frontends[f.Key] = err
		}
	}
	if len(refused.Frontends) > 0 {
		return fmt.Errorf("apply: %w", refused)
	}
	return nil
}

func (w *world) Sync(n plan.Node, checks map[objects.Name]plan.HealthCheck) {
	w.note("checks %d at %d", len(checks), len(n.Addrs))
	w.ports = nil
	for _, hc := range checks {
		w.ports = append(w.ports, hc.Port)
	}
}

func (w *world) Warn(service objects.Name, reason, text string) {
	w.note("warn %s %s: %s", service, reason, text)
}

func (w *world) WarnOfObject(service objects.Name, reason, text string) {
	w.note("warn all of %s %s: %s", service, reason, text)
}

func (w *world) WarnNode(reason, text string) { w.note("warn node %s: %s", reason, text) }

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%v ", time.Since(w.start))+fmt.Sprintf(format, args...))
}

// take returns what was written down, and begins anew.
func (w *world) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.log, "\n")
	w.log, w.start = nil, time.Now()
	return out
}

func svc(i int) objects.Change {
	return objects.Change{Service: &objects.Service{
		Name: objects.Name{Namespace: "ns", Name: fmt.Sprint(i)}, Type: objects.ClusterIP,
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})},
		Ports:      []objects.ServicePort{{Protocol: objects.TCP, Port: 80}},
	}}
}

func slice(i int, ready bool) objects.Change {
	return objects.Change{Slice: &objects.EndpointSlice{
		Name: objects.Name{Namespace: "ns", Name: fmt.Sprint(i, "-1")}, Service: objects.Name{Namespace: "ns", Name: fmt.Sprint(i)},
		Ports:     []objects.SlicePort{{Protocol: objects.TCP, Port: 8080}},
		Endpoints: []objects.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Node: "here", Ready: ready}},
	}}
}

func node() objects.Change {
	return objects.Change{Node: &objects.Node{Name: "here", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
}

// inBubble runs a Loop on synthetic time.
func inBubble(t *testing.T, f func(*testing.T, *Loop, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{start: time.Now()}
		l := New(Config{
			Options: plan.Options{Node: "here", Terminating: plan.Fallback, NoLocal: plan.Drop},
			Target:  w, HealthChecks: w, Events: w, Logger: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		f(t, l, w)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func want(t *testing.T, w *world, lines ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(strings.Join(lines, "\n"), w.take()); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
}

// A change that comes alone is applied at once, and only its Service is touched.
func TestAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		synctest.Wait()
		if w.log != nil {
			t.Errorf("something was done before the first objects: %v", w.log)
		}
		l.Handle([]objects.Change{node(), svc(1), svc(2), svc(3)})
		want(t, w, "0s complete set=6 gone=0 of 3", "0s checks 0 at 1")
		l.Handle([]objects.Change{slice(2, true)})
		want(t, w, "0s change set=1 gone=0 of 1")
		l.Handle([]objects.Change{{Gone: &objects.Gone{Kind: objects.KindService, Name: objects.Name{Namespace: "ns", Name: "3"}}}})
		want(t, w, "0s change set=0 gone=2 of 0")
	})
}

// What comes during an Apply is taken together by the next.
func TestCoalesce(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		l.Handle([]objects.Change{node(), svc(1), svc(2), svc(3)})
		synctest.Wait()
		w.take()
		w.took = 10 * time.Millisecond
		l.Handle([]objects.Change{slice(1, true)})
		for i := range 20 {
			time.Sleep(time.Millisecond / 4)
			l.Handle([]objects.Change{slice(2, i%2 == 0), slice(3, true)})
		}
		if s := l.Status(); s.Waiting.IsZero() {
			t.Error("changes wait, and the status does not say so")
		}
		time.Sleep(time.Second)
		// Service 2 came back to what it was: it is looked at, and nothing is set.
		want(t, w, "0s change set=1 gone=0 of 1", "10ms change set=1 gone=0 of 2")
		if s := l.Status(); !s.Waiting.IsZero() {
			t.Error("nothing waits, and the status says so")
		}
	})
}

// A Service whose last slice goes and comes again within a moment, or whose endpoints move to
// another slice, never is without endpoints; one that stays without is, a moment later.
func TestRefill(t *testing.T) {
	gone := objects.Change{Gone: &objects.Gone{Kind: objects.KindSlice, Name: objects.Name{Namespace: "ns", Name: "1-1"}, Service: objects.Name{Namespace: "ns", Name: "1"}}}
	empty, other := slice(1, true), slice(1, true)
	empty.Slice.Endpoints = nil
	other.Slice.Name.Name = "1-2"
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		l.Handle([]objects.Change{node(), svc(1), svc(2), slice(1, true)})
		synctest.Wait()
		w.take()
		for _, ends := range []objects.Change{gone, empty} {
			l.Handle([]objects.Change{ends})
			time.Sleep(refill - time.Millisecond)
			l.Handle([]objects.Change{slice(1, true)})
			time.Sleep(time.Second)
			want(t, w, "2ms change set=0 gone=0 of 1")
		}
		second := slice(2, true)
		l.Handle([]objects.Change{second})
		want(t, w, "0s change set=1 gone=0 of 1")
		l.Handle([]objects.Change{gone}) // and another one, while it is waited for that
		time.Sleep(refill - time.Millisecond)
		l.Handle([]objects.Change{{Gone: &objects.Gone{Kind: objects.KindSlice, Name: second.Slice.Name, Service: second.Slice.Service}}, slice(1, true)})
		time.Sleep(refill - time.Millisecond)
		l.Handle([]objects.Change{second})
		time.Sleep(time.Second)
		want(t, w, "4ms change set=0 gone=0 of 2")
		l.Handle([]objects.Change{other}) // beside the first, which may go at once
		want(t, w, "0s change set=0 gone=0 of 1")
		l.Handle([]objects.Change{gone})
		want(t, w, "0s change set=0 gone=0 of 1")
		l.Handle([]objects.Change{{Gone: &objects.Gone{Kind: objects.KindSlice, Name: other.Slice.Name, Service: other.Slice.Service}}, svc(3)})
		time.Sleep(time.Second)
		want(t, w, "3ms change set=3 gone=0 of 2")
		l.Handle([]objects.Change{empty}) // it has none
		want(t, w, "0s change set=0 gone=0 of 1")
		both := svc(4)
		both.Service.ClusterIPs = append(both.Service.ClusterIPs, netip.MustParseAddr("fd00:96::4"))
		v6 := slice(4, true)
		v6.Slice.Name.Name, v6.Slice.Endpoints[0].Addr = "4-6", netip.MustParseAddr("fd00::1")
		l.Handle([]objects.Change{both, slice(4, true), v6})
		want(t, w, "0s change set=4 gone=0 of 1")
		l.Handle([]objects.Change{{Gone: &objects.Gone{Kind: objects.KindSlice, Name: slice(4, true).Slice.Name, Service: both.Service.Name}}}) // the other family has one
		time.Sleep(time.Millisecond)
		l.Handle([]objects.Change{slice(4, true)})
		time.Sleep(time.Second)
		want(t, w, "1ms change set=0 gone=0 of 1")
	})
}

// A failure is tried again with growing delay, completely; a change that comes
// meanwhile is part of it. The status remembers since when something waits.
func TestRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		l.Handle([]objects.Change{node(), svc(1), svc(2)})
		synctest.Wait()
		w.take()
		w.fail = 3
		since := time.Now()
		l.Handle([]objects.Change{slice(1, true)})
		time.Sleep(50 * time.Millisecond)
		l.Handle([]objects.Change{slice(2, true)})
		time.Sleep(500 * time.Millisecond)
		if s := l.Status(); !s.Waiting.Equal(since) || !s.Applied.Equal(since) {
			t.Errorf("status %+v, want applied and waiting since %v", s, since)
		}
		time.Sleep(time.Second)
		want(t, w, "0s change set=1 gone=0 of 1", "100ms complete set=4 gone=0 of 2", "300ms complete set=4 gone=0 of 2", "700ms complete set=4 gone=0 of 2", "700ms checks 0 at 1")
		l.Handle([]objects.Change{slice(2, false)})
		want(t, w, "0s change set=1 gone=0 of 1") // and no complete one again
		w.fail = 1
		l.Handle([]objects.Change{slice(2, true)})
		time.Sleep(time.Second)
		want(t, w, "0s change set=1 gone=0 of 1", "100ms complete set=4 gone=0 of 2", "100ms checks 0 at 1") // the pauses begin anew
	})
}

// What comes during an Apply waits when that is done, whatever it is: were the next one to hang, probes
// are to notice.
func TestWaitingDuringApply(t *testing.T) {
	handle := func(c objects.Change) func(*Loop) { return func(l *Loop) { l.Handle([]objects.Change{c}) } }
	for name, change := range map[string]func(*Loop){
		"a slice":  handle(slice(1, true)),
		"the Node": handle(objects.Change{Gone: &objects.Gone{Kind: objects.KindNode, Name: objects.Name{Name: "here"}}}),
		"a loss":   (*Loop).Lost,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *Loop, w *world) {
				w.took = time.Minute
				l.Handle([]objects.Change{node(), svc(1)})
				time.Sleep(30 * time.Second)
				change(l)
				time.Sleep(time.Minute) // the second is under way
				if s := l.Status(); s.Waiting.IsZero() || s.Applied.IsZero() {
					t.Errorf("status %+v, want one change applied and one waiting", s)
				}
				time.Sleep(time.Minute)
				if s := l.Status(); !s.Waiting.IsZero() {
					t.Errorf("waiting since %v when all is done", s.Waiting)
				}
			})
		})
	}
}

// What policy Local leaves without an endpoint is counted by port, family and policy, as changes
// come and after a complete Apply; a Service without any endpoint is none of them.
func TestNoLocal(t *testing.T) {
	lb := svc(1)
	lb.Service.Type, lb.Service.External, lb.Service.Internal = objects.LoadBalancer, objects.Local, objects.Local
	lb.Service.LoadBalancerIPs = []netip.Addr{netip.MustParseAddr("203.0.113.1")}
	lb.Service.Ports[0].NodePort = 30080
	elsewhere := slice(1, true)
	elsewhere.Slice.Endpoints[0].Node = "there"
	both := plan.NoLocal{Internal: [2]int{1, 0}, External: [2]int{1, 0}}
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		for _, c := range []struct {
			change objects.Change
			want   plan.NoLocal
		}{
			{lb, plan.NoLocal{}}, {elsewhere, both}, {slice(1, true), plan.NoLocal{}}, {elsewhere, both},
			{objects.Change{Gone: &objects.Gone{Kind: objects.KindService, Name: lb.Service.Name}}, plan.NoLocal{}}, {lb, both},
		} {
			l.Handle([]objects.Change{node(), c.change})
			time.Sleep(time.Second)
			l.Lost()
			time.Sleep(time.Second)
			if got := l.Status().NoLocal; got != c.want {
				t.Errorf("after %+v: %+v, want %+v", c.change, got, c.want)
			}
		}
	})
}

// Health checks are told after the rules, and only when they change.
func TestHealthChecks(t *testing.T) {
	lb := svc(1)
	lb.Service.Type, lb.Service.External, lb.Service.HealthCheckNodePort = objects.LoadBalancer, objects.Local, 32000
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		w.took = time.Millisecond
		l.Handle([]objects.Change{node(), lb, svc(2)})
		time.Sleep(time.Second)
		want(t, w, "0s complete set=4 gone=0 of 2", "1ms checks 1 at 1")
		l.Handle([]objects.Change{slice(2, true)})
		time.Sleep(time.Second)
		want(t, w, "0s change set=1 gone=0 of 1")
		l.Handle([]objects.Change{slice(1, true)})
		time.Sleep(time.Second)
		want(t, w, "0s change set=1 gone=0 of 1", "1ms checks 1 at 1")
		l.Handle([]objects.Change{{Gone: &objects.Gone{Kind: objects.KindService, Name: lb.Service.Name}}})
		time.Sleep(time.Second)
		want(t, w, "0s change set=0 gone=2 of 0", "1ms checks 0 at 1")
	})
}

// A Service has a check while it is a load balancer under policy Local, at the
// port of the day.
func TestHealthCheckFollows(t *testing.T) {
	lb := func(change func(*objects.Service)) objects.Change {
		c := svc(1)
		c.Service.Type, c.Service.External, c.Service.HealthCheckNodePort = objects.LoadBalancer, objects.Local, 32000
		change(c.Service)
		return c
	}
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		l.Handle([]objects.Change{node(), svc(2)})
		for _, c := range []struct {
			when   string
			change func(*objects.Service)
			want   []uint16
		}{
			{"at first", func(*objects.Service) {}, []uint16{32000}},
			{"type NodePort", func(s *objects.Service) { s.Type = objects.NodePort }, nil},
			{"type LoadBalancer again", func(*objects.Service) {}, []uint16{32000}},
			{"policy Cluster", func(s *objects.Service) { s.External = objects.Cluster }, nil},
			{"policy Local again", func(*objects.Service) {}, []uint16{32000}},
			{"another number", func(s *objects.Service) { s.HealthCheckNodePort = 32001 }, []uint16{32001}},
			{"no number", func(s *objects.Service) { s.HealthCheckNodePort = 0 }, nil},
		} {
			l.Handle([]objects.Change{lb(c.change)})
			synctest.Wait()
			if diff := cmp.Diff(c.want, w.ports); diff != "" {
				t.Errorf("%s: ports of the checks (-want +got):\n%s", c.when, diff)
			}
		}
	})
}

// A node that goes away changes its eligibility and no rule.
func TestNodeLeaving(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		l.Handle([]objects.Change{node(), svc(1)})
		synctest.Wait()
		w.take()
		l.Handle([]objects.Change{{Gone: &objects.Gone{Kind: objects.KindNode, Name: objects.Name{Name: "here"}}}})
		want(t, w, "0s change set=0 gone=0 of 0")
		if !l.Status().Ineligible {
			t.Error("the status does not say that the node leaves")
		}
		l.Handle([]objects.Change{node()})
		synctest.Wait()
		if l.Status().Ineligible {
			t.Error("the node is back, and the status says that it leaves")
		}
	})
}

// Without its Node nothing is done, which is said once, and the node is for no load
// balancer: what is in the kernel since before stays as it is.
func TestNodeMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		if !l.Status().Ineligible {
			t.Error("eligible before anything is known")
		}
		l.Handle([]objects.Change{svc(1)})
		want(t, w, "0s warn node NodeNotKnown: there is no such Node in the API: nothing is changed on this node before that is there")
		l.Lost()
		l.Handle([]objects.Change{svc(2)})
		want(t, w)
		bare := node()
		bare.Node.InternalIPs = nil
		l.Handle([]objects.Change{bare})
		want(t, w, "0s warn node NodeNotKnown: the Node has no address of type InternalIP: nothing is changed on this node before that is there")
		if s := l.Status(); !s.Ineligible || !s.Applied.IsZero() || !s.Waiting.IsZero() {
			t.Errorf("status %+v, want nothing applied, nothing waiting and the node ineligible", s)
		}
		l.Handle([]objects.Change{node()})
		want(t, w, "0s complete set=4 gone=0 of 2", "0s checks 0 at 1")
		if l.Status().Ineligible {
			t.Error("the Node is there, and the status does not say so")
		}
	})
}

// Where the Node's podCIDRs tell which pods are local, they are waited for too.
func TestNodeWithoutPodCIDR(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		l.cfg.Options.Local = plan.ByNodeCIDR
		bare, whole := node(), node()
		bare.Node.PodCIDRs, whole.Node.PodCIDRs = nil, []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}
		l.Handle([]objects.Change{svc(1), bare})
		want(t, w, "0s warn node NodeNotKnown: the Node has no podCIDR (--detect-local=NodeCIDR): nothing is changed on this node before that is there")
		l.Handle([]objects.Change{whole})
		want(t, w, "0s complete set=2 gone=0 of 1", "0s checks 0 at 1")
	})
}

// A change that changes nothing, or that an earlier round took along, does not
// wait for anything.
func TestNothingWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		l.Handle([]objects.Change{node(), svc(1)})
		synctest.Wait()
		w.take()
		l.Handle([]objects.Change{{}})
		want(t, w)
		if s := l.Status(); !s.Waiting.IsZero() {
			t.Errorf("status %+v waits for nothing", s)
		}
	})
}

// A Service that the kernel refuses is told of once, and the others go on; when it
// is taken again, a new refusal is told again.
func TestRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		bad := plan.Key{Addr: netip.MustParseAddr("10.96.0.2"), Protocol: objects.TCP, Port: 80}
		w.no = map[plan.Key]error{bad: errors.New("too long")}
		said := "0s warn ns/2 RefusedByKernel: tcp 10.96.0.2:80: too long"
		l.Handle([]objects.Change{node(), svc(1), svc(2)})
		want(t, w, "0s complete set=4 gone=0 of 2", said, "0s checks 0 at 1")
		if s := l.Status(); s.Services != 2 || s.Refused != 1 || !s.Waiting.IsZero() {
			t.Errorf("status %+v, want one of two Services refused and nothing waiting", s)
		}
		l.Handle([]objects.Change{slice(2, true)})
		want(t, w, "0s change set=1 gone=0 of 1")
		w.no = nil
		l.Handle([]objects.Change{slice(2, false)})
		want(t, w, "0s change set=1 gone=0 of 1")
		if s := l.Status(); s.Refused != 0 {
			t.Errorf("status %+v, want nothing refused", s)
		}
		w.no = map[plan.Key]error{bad: errors.New("too long")}
		l.Handle([]objects.Change{slice(2, true)})
		want(t, w, "0s change set=1 gone=0 of 1", said)
	})
}

// A refused frontend is tried again when its Service changes in another way, and
// stays known as refused.
func TestRefusedAgain(t *testing.T) {
	two := svc(2)
	two.Service.Ports = append(two.Service.Ports, objects.ServicePort{Name: "b", Protocol: objects.TCP, Port: 81})
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		bad := plan.Key{Addr: netip.MustParseAddr("10.96.0.2"), Protocol: objects.TCP, Port: 80}
		w.no = map[plan.Key]error{bad: errors.New("too long")}
		l.Handle([]objects.Change{node(), svc(1), svc(2)})
		synctest.Wait()
		w.take()
		l.Handle([]objects.Change{two})
		want(t, w, "0s change set=2 gone=0 of 1") // the new port, and the refused one again
		if s := l.Status(); s.Refused != 1 {
			t.Errorf("status %+v, want it still refused", s)
		}
		l.Handle([]objects.Change{{Gone: &objects.Gone{Kind: objects.KindService, Name: two.Service.Name}}})
		want(t, w, "0s change set=0 gone=3 of 0") // what was there before it was refused goes too
		if s := l.Status(); s.Refused != 0 {
			t.Errorf("status %+v, want nothing refused", s)
		}
	})
}

// toldFlows keep what they are told.
type toldFlows struct {
	w       *world
	told    []*plan.Plan
	refused []int
}

func (f *toldFlows) Changing() { f.w.note("flows changing") }
func (f *toldFlows) Changed(old, new *plan.Plan, refused map[plan.Key]error) {
	f.refused = append(f.refused, len(refused))
	f.w.note("flows complete=%t of %d", old == nil, len(new.Services))
	f.told = append(f.told, new)
}

// The flows are told before a change and when it is in, of nothing that failed, and of
// plans that stay as they are.
func TestFlowsAreTold(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		flows := &toldFlows{w: w}
		l.cfg.Flows = flows
		l.Handle([]objects.Change{node(), svc(1), svc(2)})
		want(t, w, "0s flows changing", "0s complete set=4 gone=0 of 2", "0s flows complete=true of 2", "0s checks 0 at 1")
		w.fail = 1
		l.Handle([]objects.Change{slice(1, true)})
		want(t, w, "0s flows changing", "0s change set=1 gone=0 of 1")
		time.Sleep(time.Second)
		want(t, w, "100ms flows changing", "100ms complete set=4 gone=0 of 2", "100ms flows complete=true of 2", "100ms checks 0 at 1")
		l.Handle([]objects.Change{slice(2, true), {Gone: &objects.Gone{Kind: objects.KindService, Name: svc(1).Service.Name}}})
		want(t, w, "0s flows changing", "0s change set=1 gone=2 of 1", "0s flows complete=false of 1")
		if first := flows.told[0]; len(first.Services) != 2 || len(first.Node.Addrs) != 1 {
			t.Errorf("the first plan told has %d Services and a node at %v by now, want 2 and its address", len(first.Services), first.Node.Addrs)
		}
		w.no = map[plan.Key]error{{Addr: netip.MustParseAddr("10.96.0.2"), Protocol: objects.TCP, Port: 80}: errors.New("too long")}
		l.Handle([]objects.Change{slice(2, false)})
		l.Lost()
		synctest.Wait()
		if refused := flows.told[len(flows.told)-1].Services[svc(2).Service.Name]; len(refused.Frontends) != 2 || flows.refused[len(flows.refused)-1] != 1 {
			t.Errorf("told of %d refused frontends and of the plan %+v, want one, and the plan with it", flows.refused, refused)
		}
	})
}

// What somebody else changed is read back and mended, and so is everything once
// in an hour, or a quarter of one before.
func TestLost(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		l.Lost()
		want(t, w) // nothing is known yet
		l.Handle([]objects.Change{node(), svc(1)})
		synctest.Wait()
		w.take()
		l.Lost()
		want(t, w, "0s complete set=2 gone=0 of 1", "0s checks 0 at 1")
		time.Sleep(selfCheck * 3 / 4)
		want(t, w)
		time.Sleep(selfCheck/4 + time.Second)
		if all := strings.Split(w.take(), "\n"); len(all) != 2 || !strings.HasSuffix(all[0], " complete set=2 gone=0 of 1") {
			t.Errorf("within the hour: %q", all)
		}
	})
}

// Who has a frontend that two Services claim does not depend on which of them
// changed last.
func TestRivals(t *testing.T) {
	one, two := svc(1), svc(2)
	one.Service.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	two.Service.ExternalIPs = one.Service.ExternalIPs
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		two.Service.Created = 1
		l.Handle([]objects.Change{node(), one, two})
		synctest.Wait()
		told := strings.Split(w.take(), "\n")
		slices.Sort(told)
		// Both are told, once.
		if diff := cmp.Diff([]string{
			"0s warn all of ns/1 AddressClaimedTwice: tcp 198.51.100.1:80 is claimed by ns/2 too, and served for this Service",
			"0s warn all of ns/2 AddressClaimedTwice: tcp 198.51.100.1:80 is served for ns/1, which claims it too",
		}, told[len(told)-2:]); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		l.Handle([]objects.Change{slice(2, true)})
		want(t, w, "0s change set=1 gone=0 of 2") // its ClusterIP only
		// A third, which claims another address of the second: who is told something new is
		// told all of it, and nobody else anything.
		second, third := *two.Service, *svc(3).Service
		second.ExternalIPs = append(slices.Clone(two.Service.ExternalIPs), netip.MustParseAddr("198.51.100.2"))
		third.ExternalIPs, third.Created = second.ExternalIPs[1:], 2
		l.Handle([]objects.Change{{Service: &second}, {Service: &third}})
		synctest.Wait()
		told = strings.Split(w.take(), "\n")
		slices.Sort(told)
		if diff := cmp.Diff([]string{
			"0s warn all of ns/2 AddressClaimedTwice: tcp 198.51.100.1:80 is served for ns/1, which claims it too; tcp 198.51.100.2:80 is claimed by ns/3 too, and served for this Service",
			"0s warn all of ns/3 AddressClaimedTwice: tcp 198.51.100.2:80 is served for ns/2, which claims it too",
		}, told[len(told)-2:]); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		l.Handle([]objects.Change{slice(3, true)})
		want(t, w, "0s change set=1 gone=0 of 3")
		l.Handle([]objects.Change{{Service: two.Service}, {Gone: &objects.Gone{Kind: objects.KindService, Name: third.Name}}})
		synctest.Wait()
		w.take()
		l.Handle([]objects.Change{{Gone: &objects.Gone{Kind: objects.KindService, Name: one.Service.Name}}})
		want(t, w, "0s change set=1 gone=2 of 1") // the address passes on
	})
}

// Status answers while a plan is built, which is under the mutex of the objects.
func TestStatusDoesNotWait(t *testing.T) {
	l := New(Config{Logger: slog.New(slog.DiscardHandler)})
	l.mu.Lock()
	defer l.mu.Unlock()
	got := make(chan Status, 1)
	go func() { got <- l.Status() }()
	select {
	case <-got:
	case <-time.After(time.Minute):
		t.Error("no status while the objects are locked")
	}
}
