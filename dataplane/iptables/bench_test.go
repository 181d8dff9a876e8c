package iptables_test

import (
	"fmt"
	"testing"

	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Numbers of Services with ten endpoints each. What we write for one change is
// the same at each; what the kernel and the programs make of it is not.
//
//	go test -run - -bench . -benchtime 20x ./dataplane/iptables
var sizes = []int{1, 1000, 5000}

func BenchmarkReplaceEndpoint(b *testing.B) {
	benchmark(b, func(s plan.Service, i int) plan.Service {
		s.Frontends[0].Outside.Endpoints[4] = endpoint(70000+i, 4)
		return s
	})
}

// Each iteration takes a Service away or brings it back.
func BenchmarkService(b *testing.B) {
	benchmark(b, func(s plan.Service, i int) plan.Service {
		if i%2 == 1 {
			return plan.Service{}
		}
		return s
	})
}

func benchmark(b *testing.B, edit func(plan.Service, int) plan.Service) {
	atSizes(b, func(b *testing.B, ns *netns.NS, f iptables.Flavour, n int) {
		target, p := newTarget(b, ns, f), many(n, 10)
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

// One endpoint of a Service replaced, however many it has.
func BenchmarkBigService(b *testing.B) {
	for _, f := range flavours() {
		for _, n := range []int{10, 100, 1000, 5000, 10000} {
			b.Run(fmt.Sprintf("%s/endpoints=%d", f, n), func(b *testing.B) {
				needFlavour(b, f)
				target, p := newTarget(b, netns.ForTest(b, "bench"), f), many(1, n)
				apply(b, target, nil, p)
				old, i := part(p, 0, service(0, n)), 0
				for b.Loop() {
					i++
					s := service(0, n)
					s.Frontends[0].Outside.Endpoints[n/2] = endpoint(70000+i, 4)
					new := part(p, 0, s)
					apply(b, target, old, new)
					old = new
				}
			})
		}
	}
}

// The whole state, from nothing.
func BenchmarkLoad(b *testing.B) {
	atSizes(b, func(b *testing.B, ns *netns.NS, f iptables.Flavour, n int) {
		for b.Loop() {
			apply(b, newTarget(b, ns, f), nil, many(n, 10))
			b.StopTimer()
			if err := iptables.Clean(ns.FD()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}

func BenchmarkTakeOver(b *testing.B) {
	atSizes(b, func(b *testing.B, ns *netns.NS, f iptables.Flavour, n int) {
		apply(b, newTarget(b, ns, f), nil, many(n, 10))
		for b.Loop() {
			apply(b, newTarget(b, ns, f), nil, many(n, 10))
		}
	})
}

func atSizes(b *testing.B, run func(b *testing.B, ns *netns.NS, f iptables.Flavour, n int)) {
	for _, f := range flavours() {
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%s/services=%d", f, n), func(b *testing.B) {
				needFlavour(b, f)
				run(b, netns.ForTest(b, "bench"), f, n)
			})
		}
	}
}
