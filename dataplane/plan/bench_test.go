package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// One endpoint of a Service that has many, in slices of a hundred:
//
//	go test -run - -bench . ./dataplane/plan
func BenchmarkBigService(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 5000, 10000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			name := objects.Name{Namespace: "ns", Name: "big"}
			snap := &objects.Snapshot{}
			snap.Apply(objects.Change{Node: &objects.Node{Name: "here", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}})
			snap.Apply(objects.Change{Service: &objects.Service{
				Name: name, Type: objects.LoadBalancer, External: objects.Local, Internal: objects.Cluster, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
				LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("203.0.113.1")}, HealthCheckNodePort: 31000,
				Ports: []objects.ServicePort{{Protocol: objects.TCP, Port: 80, NodePort: 30080}},
			}})
			part := func(at, i int) objects.Change {
				s := &objects.EndpointSlice{Name: objects.Name{Namespace: "ns", Name: fmt.Sprint("big-", at)}, Service: name, Ports: []objects.SlicePort{{Protocol: objects.TCP, Port: 8080}}}
				addr := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}) }
				for j := at * 100; j < min(n, at*100+100); j++ {
					s.Endpoints = append(s.Endpoints, objects.Endpoint{Addr: addr(2 * j), Node: fmt.Sprint("node-", j%100), Ready: true, Serving: true})
				}
				if at == 0 {
					s.Endpoints[0].Addr = addr(2*(i*7919%n) + 1) // of any rank
				}
				return objects.Change{Slice: s}
			}
			for at := range (n + 99) / 100 {
				snap.Apply(part(at, at))
			}
			opt := plan.Options{Node: "node-1", Terminating: plan.Fallback, NoLocal: plan.Drop}
			applied, claims := &plan.Plan{Services: map[objects.Name]plan.Service{}}, plan.Claims{}
			plan.Step(applied, &claims, snap, opt, plan.Dirty{name: nil}, true)
			i := 0
			for b.Loop() {
				i++
				dirty := plan.Dirty{}
				dirty.Add(snap.Apply(part(0, 1000+i)))
				old, new := plan.Step(applied, &claims, snap, opt, dirty, false)
				if c := plan.Diff(old, new); len(c.Set) == 0 {
					b.Fatal("no change")
				}
			}
		})
	}
}
