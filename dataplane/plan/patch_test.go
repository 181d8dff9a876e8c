package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Whatever changes, what is patched is what a plan made anew would be, but for the order of slots, and who stays has its
// slot. Of changes of a few endpoints many are patched.
func TestPatch(t *testing.T) {
	patched, of := 0, 0
	for seed := range uint64(100) {
		h := newHistory(seed)
		for range 60 {
			dirty := Dirty{}
			for range 1 + h.r.IntN(2) {
				dirty.Add(h.snap.Apply(h.change()))
			}
			was := h.applied.Services[h.name]
			if dirty[h.name] != nil {
				of++
				if _, ok := patch(was, &h.snap, h.name, h.opt, dirty[h.name]); ok {
					patched++
				}
			}
			Step(&h.applied, &h.claims, &h.snap, h.opt, dirty, false)
			now := h.applied.Services[h.name]
			fresh, _ := BuildService(&h.snap, h.name, h.opt)
			if d := cmp.Diff(sortedService(fresh), sortedService(now), comparers); d != "" {
				t.Fatalf("seed %d (-fresh +stepped):\n%s", seed, d)
			}
			slotsKept(t, was, now)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
	if patched < of/4 {
		t.Errorf("of %d changes of slices %d were patched", of, patched)
	}
}

var comparers = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b []Endpoint) bool { return slices.Equal(a, b) }), // nil is empty
}

func sortedService(s Service) Service {
	s.Frontends = slices.Clone(s.Frontends)
	for i := range s.Frontends {
		f := &s.Frontends[i]
		f.Outside.Endpoints = Sorted(f.Outside.Endpoints)
		if f.Inside != nil {
			in := *f.Inside
			in.Endpoints, f.Inside = Sorted(in.Endpoints), &in
		}
	}
	return s
}

// slotsKept: who was in a list, and is, and had a slot that is there, has it.
func slotsKept(t *testing.T, was, now Service) {
	t.Helper()
	for _, f := range now.Frontends {
		i := slices.IndexFunc(was.Frontends, func(o Frontend) bool { return o.Key == f.Key })
		if i < 0 {
			continue
		}
		old := was.Frontends[i].Outside.Endpoints
		for slot, e := range old {
			at := slices.IndexFunc(f.Outside.Endpoints, e.SamePlace)
			if at >= 0 && slot < len(f.Outside.Endpoints) && at != slot {
				t.Errorf("%s: %v was at %d, and is at %d", f.Key, e, slot, at)
			}
		}
	}
}

// history is a Service, with slices that change.
type history struct {
	r       *rand.Rand
	name    objects.Name
	snap    objects.Snapshot
	opt     Options
	applied Plan
	claims  Claims
	slices  [4]objects.EndpointSlice
}

func newHistory(seed uint64) *history {
	h := &history{
		r: rand.New(rand.NewPCG(seed, 1)), name: objects.Name{Namespace: "shop", Name: "web"},
		opt:     Options{Node: "here", Terminating: []Terminating{Fallback, Ignore}[seed%2], NoLocal: Drop},
		applied: Plan{Services: map[objects.Name]Service{}},
	}
	h.snap.Apply(objects.Change{Node: &objects.Node{Name: "here", Zone: "a", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}})
	h.snap.Apply(objects.Change{Service: &objects.Service{Name: objects.Name{Namespace: "shop", Name: "other"}, Type: objects.ClusterIP, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.0.0.200")}}})
	Step(&h.applied, &h.claims, &h.snap, h.opt, Dirty{}, true)
	dirty := Dirty{}
	dirty.Add(h.snap.Apply(h.service()))
	for i := range h.slices {
		h.slices[i] = objects.EndpointSlice{
			Name: objects.Name{Namespace: "shop", Name: fmt.Sprint("web-", i)}, Service: h.name,
			Ports: []objects.SlicePort{{Name: "http", Protocol: objects.TCP, Port: 8080}, {Name: "dns", Protocol: objects.UDP, Port: 5353}},
		}
		for range 4 {
			h.slices[i].Endpoints = append(h.slices[i].Endpoints, h.fresh(i))
		}
		sl := h.copyOf(i)
		dirty.Add(h.snap.Apply(objects.Change{Slice: &sl}))
	}
	Step(&h.applied, &h.claims, &h.snap, h.opt, dirty, false)
	return h
}

func (h *history) copyOf(i int) objects.EndpointSlice {
	sl := h.slices[i]
	sl.Endpoints, sl.Ports = slices.Clone(sl.Endpoints), slices.Clone(sl.Ports)
	return sl
}

func (h *history) service() objects.Change {
	policy := func() objects.Policy { return []objects.Policy{objects.Cluster, objects.Local}[h.r.IntN(2)] }
	return objects.Change{Service: &objects.Service{
		Name: h.name, Type: objects.LoadBalancer, External: policy(), Internal: policy(), ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")},
		LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("203.0.113.1")}, HealthCheckNodePort: 31000,
		Ports: []objects.ServicePort{{Name: "http", Protocol: objects.TCP, Port: 80, NodePort: 30080}, {Name: "dns", Protocol: objects.UDP, Port: 53, NodePort: 30053}},
	}}
}

// fresh is an endpoint of the ith slice: of sixty addresses of its own; now and then one that others have. The last is of IPv6.
func (h *history) fresh(i int) objects.Endpoint {
	e := objects.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i), byte(h.r.IntN(60))}), Node: fmt.Sprint("node-", h.r.IntN(4)), Ready: true, Serving: true}
	if h.r.IntN(8) == 0 {
		e.Node = ""
	}
	switch {
	case i == 3:
		e.Addr = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(h.r.IntN(60))})
	case h.r.IntN(40) == 0:
		e.Addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(h.r.IntN(3) * 100)})
	case h.r.IntN(40) == 0: // the node's, and the Service's own
		e.Addr = netip.MustParseAddr([]string{"192.0.2.1", "203.0.113.1"}[h.r.IntN(2)])
	}
	return h.state(e)
}

func (h *history) state(e objects.Endpoint) objects.Endpoint {
	switch n := h.r.IntN(12); {
	case n < 2:
		e.Ready, e.Terminating = false, true
	case n < 4:
		e.Ready, e.Serving, e.Terminating = false, false, n == 2
	default:
		e.Ready, e.Serving, e.Terminating = true, true, false
	}
	if h.r.IntN(40) == 0 {
		e.Node = "here"
	}
	e.Hints = nil
	if h.r.IntN(40) == 0 {
		e.Hints = &objects.Hints{Zones: []string{"a", "b"}[:1+h.r.IntN(2)]}
	}
	return e
}

// change is mostly of one or a few endpoints of a slice.
func (h *history) change() objects.Change {
	i := h.r.IntN(len(h.slices))
	sl := &h.slices[i]
	switch n := h.r.IntN(60); {
	case n == 0:
		return h.service()
	case n == 1:
		sl.Ports[0].Port++
	case n == 2:
		sl.Headless = !sl.Headless
	case n == 3:
		sl.Endpoints = nil
	case n == 4: // all hinted: only then hints count
		for i := range sl.Endpoints {
			sl.Endpoints[i].Hints = &objects.Hints{Zones: []string{[]string{"a", "b"}[i%2]}}
		}
	case n == 9: // the other Service's address comes and goes
		other := objects.Service{Name: objects.Name{Namespace: "shop", Name: "other"}, Type: objects.ClusterIP, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.0.0.200")}}
		if h.r.IntN(2) == 0 {
			other.ExternalIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i), byte(h.r.IntN(60))})}
		}
		return objects.Change{Service: &other}
	case n == 10: // and one of the node's
		return objects.Change{Local: &objects.LocalAddrs{netip.AddrFrom4([4]byte{10, 0, byte(i), byte(h.r.IntN(60))})}}
	case n == 7 || n == 8: // none ready
		for i := range sl.Endpoints {
			sl.Endpoints[i].Ready, sl.Endpoints[i].Terminating = false, true
		}
	case n == 5:
		return objects.Change{Gone: &objects.Gone{Kind: objects.KindSlice, Name: sl.Name, Service: h.name}}
	case n == 6 && len(sl.Endpoints) > 0:
		sl.Endpoints = append(sl.Endpoints, sl.Endpoints[0])
	case n < 20 || len(sl.Endpoints) == 0:
		sl.Endpoints = append(sl.Endpoints, h.fresh(i))
	case n < 36:
		at := h.r.IntN(len(sl.Endpoints))
		sl.Endpoints = slices.Delete(sl.Endpoints, at, at+1)
	default:
		for range 1 + h.r.IntN(3) {
			at := h.r.IntN(len(sl.Endpoints))
			sl.Endpoints[at] = h.state(sl.Endpoints[at])
			if h.r.IntN(3) == 0 {
				sl.Endpoints[at] = h.fresh(i)
			}
		}
	}
	out := h.copyOf(i)
	return objects.Change{Slice: &out}
}

// What only looks like a few endpoints: the plan is made anew.
func TestNotPatched(t *testing.T) {
	name, other := objects.Name{Namespace: "shop", Name: "web"}, objects.Name{Namespace: "shop", Name: "other"}
	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, last}) }
	slice := func(named string, eps ...objects.Endpoint) objects.Change {
		return objects.Change{Slice: &objects.EndpointSlice{
			Name: objects.Name{Namespace: "shop", Name: named}, Service: name, Ports: []objects.SlicePort{{Protocol: objects.TCP, Port: 8080}}, Endpoints: eps,
		}}
	}
	service := func(name objects.Name, ip byte, external ...netip.Addr) objects.Change {
		return objects.Change{Service: &objects.Service{
			Name: name, Type: objects.ClusterIP, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, ip})}, ExternalIPs: external,
			Ports: []objects.ServicePort{{Protocol: objects.TCP, Port: 80}},
		}}
	}
	ready := func(last byte, node string, zones ...string) objects.Endpoint {
		e := objects.Endpoint{Addr: at(last), Node: node, Ready: true, Serving: true}
		if len(zones) > 0 {
			e.Hints = &objects.Hints{Zones: zones}
		}
		return e
	}
	for what, c := range map[string]struct{ before, change []objects.Change }{
		"an endpoint goes with the external IP that it was": {
			[]objects.Change{service(name, 1), service(other, 2, at(9)), slice("a", ready(1, "n1"), ready(9, "n1"))},
			[]objects.Change{slice("a", ready(1, "n1")), service(other, 2)},
		},
		"one without a hint is there twice, and with a hint counts": {
			[]objects.Change{service(name, 1), slice("a", ready(1, "n2"), ready(2, "n1", "b")), slice("b", ready(1, "n1", "a"))},
			[]objects.Change{slice("a", ready(1, "n2"), ready(2, "n1", "b"), ready(3, "n1", "b"))},
		},
		"more than a few": {
			[]objects.Change{service(name, 1), slice("a", ready(1, "n1"))},
			[]objects.Change{slice("a", append([]objects.Endpoint{ready(1, "n1")}, func() (out []objects.Endpoint) {
				for i := range byte(patchMost + 1) {
					out = append(out, ready(i+10, "n1"))
				}
				return out
			}()...)...)},
		},
	} {
		snap, applied, claims, opt := objects.Snapshot{}, Plan{Services: map[objects.Name]Service{}}, Claims{}, Options{Node: "here"}
		snap.Apply(objects.Change{Node: &objects.Node{Name: "here", Zone: "a"}})
		for i, changes := range [][]objects.Change{c.before, c.change} {
			dirty := Dirty{}
			for _, change := range changes {
				dirty.Add(snap.Apply(change))
			}
			if _, ok := patch(applied.Services[name], &snap, name, opt, dirty[name]); ok {
				t.Errorf("%s: it is patched", what)
			}
			Step(&applied, &claims, &snap, opt, dirty, i == 0)
			fresh, _ := BuildService(&snap, name, opt)
			if d := cmp.Diff(sortedService(fresh), sortedService(applied.Services[name]), comparers); d != "" {
				t.Errorf("%s (-fresh +stepped):\n%s", what, d)
			}
		}
	}
}
