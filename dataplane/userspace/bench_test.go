package userspace_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// One endpoint of a Service replaced, however many it has: nothing of it is the kernel's.
func BenchmarkBigService(b *testing.B) {
	addr := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}) }
	with := func(n, changed int) *plan.Plan {
		f := plan.Frontend{Key: plan.Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: objects.TCP, Port: 80}, Outside: plan.Route{Action: plan.Forward}}
		for i := range n {
			f.Outside.Endpoints = append(f.Outside.Endpoints, plan.Endpoint{Addr: addr(1<<20 + i), Port: 8080})
		}
		f.Outside.Endpoints[n/2].Addr = addr(1<<21 + changed)
		return &plan.Plan{Services: map[objects.Name]plan.Service{{Namespace: "ns", Name: "big"}: {Frontends: []plan.Frontend{f}}}}
	}
	for _, n := range []int{10, 100, 1000, 5000, 10000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			target := started(b, userspace.Config{Logger: slog.New(slog.DiscardHandler), NetNS: netns.ForTest(b, "bench").FD()})
			old := with(n, 0)
			if err := target.Apply(b.Context(), nil, old); err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				i++
				new := with(n, i)
				if err := target.Apply(b.Context(), old, new); err != nil {
					b.Fatal(err)
				}
				old = new
			}
		})
	}
}
