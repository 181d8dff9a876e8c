//go:build linux

package dptest

import (
	"net/netip"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// 1 001 endpoints are 77 addresses with 13 ports each, and a slice for each port.
const (
	thousandSlices = 13
	thousandAddrs  = 77
)

// Thousand takes a Service of 1 001 endpoints through changes of one of them and of half of
// them: the kernel has what is rendered, each endpoint is chosen as often as the others, and
// what has gone is chosen no more. It needs root.
func Thousand(t *testing.T, b Backend) {
	k := b.place(t)
	target, snap, old := b.New(t, k.FD()), thousand(), (*plan.Plan)(nil)
	row := Row{From: PodA, Proto: objects.TCP, To: netip.MustParseAddrPort("10.96.2.1:80"), Line: "pod-a tcp 10.96.2.1:80"}
	step := func(when string, changes ...objects.Change) {
		t.Helper()
		for _, c := range changes {
			snap.Apply(c)
		}
		p := plan.Build(snap, defaults())
		apply(t, target, old, p)
		old = p
		compareDump(t, b, k.FD(), b.Render(p), when)
		if err := b.forget(k); err != nil {
			t.Fatal(err)
		}
		r := row.Resolve(p)
		count := 20 * len(r.Dests) // that one of 1 001 is not chosen has a chance of 2e-6
		got, err := k.Spread(t.Context(), r, count)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		for _, d := range r.Dests {
			if got[d.At] == 0 {
				t.Errorf("%s: of %d connections none went to %s: it is never chosen", when, count, d.At)
			}
		}
		unfair(t, r, got, count)
	}
	step("with all")
	middle := thousandSlice(thousandSlices / 2)
	middle.Endpoints[thousandAddrs/2].Addr = netip.MustParseAddr("10.244.2.200")
	step("when one is another", objects.Change{Slice: &middle})
	var gone []objects.Change
	for i := range thousandSlices - 6 {
		s := thousandSlice(i)
		gone = append(gone, objects.Change{Gone: &objects.Gone{Kind: objects.KindSlice, Name: s.Name, Service: s.Service}})
	}
	last := thousandSlice(thousandSlices - 1)
	last.Endpoints = last.Endpoints[:thousandAddrs-1] // an odd number: what is counted has even degrees of freedom
	step("when half are gone", append(gone, objects.Change{Slice: &last})...)
	apply(t, target, old, &plan.Plan{Node: old.Node})
	compareDump(t, b, k.FD(), b.Render(&plan.Plan{Node: old.Node}), "when the Service is gone")
}

func thousand() *objects.Snapshot {
	snap, node := &objects.Snapshot{}, Node()
	service := objects.Service{
		Name: named("thousand-", 1), Type: objects.ClusterIP, Internal: objects.Cluster, External: objects.Cluster,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.2.1")}, Ports: []objects.ServicePort{{Protocol: objects.TCP, Port: 80}},
	}
	snap.Apply(objects.Change{Node: &node})
	snap.Apply(objects.Change{Service: &service})
	for i := range thousandSlices {
		s := thousandSlice(i)
		snap.Apply(objects.Change{Slice: &s})
	}
	return snap
}

// thousandSlice is one as it is at first.
func thousandSlice(i int) objects.EndpointSlice {
	s := objects.EndpointSlice{
		Name: named("thousand-", i), Service: named("thousand-", 1),
		Ports: []objects.SlicePort{{Protocol: objects.TCP, Port: uint16(8000 + i)}},
	}
	for j := range thousandAddrs {
		s.Endpoints = append(s.Endpoints, objects.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 244, 2, byte(2 + j)}), Node: "there", Ready: true, Serving: true})
	}
	return s
}
