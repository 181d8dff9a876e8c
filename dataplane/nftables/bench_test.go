package nftables_test

import (
	"fmt"
	"testing"

	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// sizes are numbers of Services with ten endpoints each. The cost of one change
// must not depend on them:
//
//	go test -run - -bench . -benchtime 2000x ./dataplane/nftables
var sizes = []int{1, 1000, 10000}

func BenchmarkReplaceEndpoint(b *testing.B) {
	benchmark(b, func(s plan.Service, i int) plan.Service {
		s.Frontends[0].Outside.Endpoints[4] = endpoint(70000+i, 4)
		return s
	})
}

// Each iteration changes the number of endpoints: the frontend and one slot.
func BenchmarkScale(b *testing.B) {
	benchmark(b, func(s plan.Service, i int) plan.Service {
		r := &s.Frontends[0].Outside
		r.Endpoints = r.Endpoints[:9+i%2]
		return s
	})
}

func benchmark(b *testing.B, edit func(plan.Service, int) plan.Service) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			ns := netns.ForTest(b, "bench")
			target, p := newTarget(b, ns), many(n, 10)
			apply(b, target, nil, p)
			old, i := part(p, n/2, service(n/2, 10)), 0
			for b.Loop() {
				i++
				new := part(p, n/2, edit(service(n/2, 10), i))
				apply(b, target, old, new)
				old = new
			}
		})
	}
}

// The whole state, from nothing and over itself.
func BenchmarkLoad(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			ns := netns.ForTest(b, "bench")
			p := many(n, 10)
			for b.Loop() {
				apply(b, newTarget(b, ns), nil, p)
				b.StopTimer()
				if err := nftables.Clean(ns.FD()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkTakeOver(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			ns := netns.ForTest(b, "bench")
			p := many(n, 10)
			apply(b, newTarget(b, ns), nil, p)
			for b.Loop() {
				apply(b, newTarget(b, ns), nil, p)
			}
		})
	}
}
