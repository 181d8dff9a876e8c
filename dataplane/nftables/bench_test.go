package nftables_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// sizes are numbers of Services with ten endpoints each. The cost of one change
// must not depend on them:
//
//	go test -run - -bench . -benchtime 2000x ./dataplane/nftables
var sizes = []int{1, 1000, 10000, 44000}

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
			cpu := cpuTime(b)
			var took []time.Duration
			for b.Loop() {
				i++
				new := part(p, n/2, edit(service(n/2, 10), i))
				begin := time.Now()
				apply(b, target, old, new)
				took = append(took, time.Since(begin))
				old = new
			}
			cpu()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}

// One endpoint of a Service that has many: the cost is to be that of one, also where those inside have a route of their
// own, and may reach themselves by it.
func BenchmarkBigService(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 5000, 10000} {
		for _, inside := range []bool{false, true} {
			b.Run(fmt.Sprintf("endpoints=%d/inside=%t", n, inside), func(b *testing.B) { benchBigService(b, n, inside) })
		}
	}
}

func benchBigService(b *testing.B, n int, inside bool) {
	big := func() plan.Service {
		s := service(0, n)
		if f := &s.Frontends[0]; inside {
			f.Inside = &plan.Route{Action: plan.Forward, Endpoints: f.Outside.Endpoints, Masquerade: plan.MasqNode}
		}
		return s
	}
	target, p := newTarget(b, netns.ForTest(b, "bench")), many(1, 1)
	apply(b, target, nil, p)
	old, i := part(p, 0, big()), 0
	apply(b, target, part(p, 0, p.Services[name(0)]), old)
	for b.Loop() {
		b.StopTimer()
		i++
		s := big()
		s.Frontends[0].Outside.Endpoints[n/2] = endpoint(70000+i, 4)
		new := part(p, 0, s)
		b.StartTimer()
		apply(b, target, old, new)
		old = new
	}
}

// One source range of one load balancer, with some thousands of others: the
// kernel copies that set for each change of it, so its cost grows with them.
func BenchmarkSourceRanges(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 5000} {
		b.Run(fmt.Sprintf("restricted=%d", n), func(b *testing.B) {
			ns := netns.ForTest(b, "bench")
			restricted := func(i, last int) plan.Service {
				s := service(i, 2)
				s.Frontends[0].Restricted = true
				s.Frontends[0].Sources = prefixes("192.0.2.0/28", "198.51.100.0/24", "203.0.113.0/25", fmt.Sprintf("233.252.0.%d/32", last%250))
				return s
			}
			target, p := newTarget(b, ns), many(n, 2)
			for i := range n {
				p.Services[name(i)] = restricted(i, i)
			}
			apply(b, target, nil, p)
			old, i := part(p, n/2, restricted(n/2, n/2)), 0
			for b.Loop() {
				i++
				new := part(p, n/2, restricted(n/2, n/2+i))
				apply(b, target, old, new)
				old = new
			}
		})
	}
}

// The whole state, into an empty kernel.
func BenchmarkColdStart(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			ns := netns.ForTest(b, "bench")
			p := many(n, 10)
			cpu := cpuTime(b)
			for b.Loop() {
				apply(b, newTarget(b, ns), nil, p)
				b.StopTimer()
				if err := nftables.Clean(ns.FD()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			cpu()
		})
	}
}

// The whole state over itself: everything is read back and nothing written.
func BenchmarkTakeOver(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			ns := netns.ForTest(b, "bench")
			p := many(n, 10)
			apply(b, newTarget(b, ns), nil, p)
			cpu := cpuTime(b)
			for b.Loop() {
				apply(b, newTarget(b, ns), nil, p)
			}
			cpu()
		})
	}
}

// cpuTime begins to measure the process's time on a processor, which says more
// than the clock on a host with other work; the function returned reports it.
func cpuTime(b *testing.B) func() {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}
