package ebpf_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// sizes are numbers of Services with three endpoints each. The cost of one change
// must not depend on them:
//
//	go test -run - -bench . -benchtime 2000x ./dataplane/ebpf
var sizes = []int{1, 1000, 10000, 44000}

func numbered(first string, n int) netip.Addr {
	b := netip.MustParseAddr(first).As4()
	return netip.AddrFrom4([4]byte{b[0], b[1] + byte(n>>16), byte(n >> 8), byte(n)})
}

func benchName(i int) objects.Name { return objects.Name{Namespace: "bench", Name: fmt.Sprint(i)} }

// benchService has a ClusterIP with so many endpoints, of which one is another each time.
func benchService(i, endpoints, change int) plan.Service {
	key := plan.Key{Addr: numbered("10.96.0.0", i), Protocol: objects.TCP, Port: 80}
	f := plan.Frontend{Key: key, Kind: plan.ClusterIP, Group: key, Outside: plan.Route{Action: plan.Forward, Masquerade: plan.MasqOffCluster}}
	for j := range endpoints {
		f.Outside.Endpoints = append(f.Outside.Endpoints, plan.Endpoint{Addr: numbered("10.128.0.0", i*endpoints+j), Port: 8080})
	}
	if change > 0 {
		f.Outside.Endpoints[endpoints/2] = plan.Endpoint{Addr: numbered("10.200.0.0", change), Port: 8080}
	}
	rest := plan.Frontend{Key: plan.Key{Addr: key.Addr}, Kind: plan.ClusterIP, Outside: plan.Route{Action: plan.Reject}}
	return plan.Service{Frontends: []plan.Frontend{rest, f}}
}

func many(n int) *plan.Plan {
	p := &plan.Plan{Node: plan.Node{Addrs: dptest.Node().InternalIPs}, Services: make(map[objects.Name]plan.Service, n)}
	for i := range n {
		p.Services[benchName(i)] = benchService(i, 3, 0)
	}
	return p
}

func part(p *plan.Plan, i int, s plan.Service) *plan.Plan {
	return &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{benchName(i): s}}
}

func benchConfig(b *testing.B, n *dptest.Net) ebpf.Config {
	cfg := config(b, n.FD())
	cfg.Sizes = ebpf.DefaultSizes()
	return cfg
}

func BenchmarkReplaceEndpoint(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			w := dptest.NewNet(b)
			target, p := started(b, benchConfig(b, w)), many(n)
			apply(b, target, nil, p)
			old, i := part(p, n/2, benchService(n/2, 3, 0)), 0
			var took []time.Duration
			for b.Loop() {
				i++
				new := part(p, n/2, benchService(n/2, 3, i))
				begin := time.Now()
				apply(b, target, old, new)
				took = append(took, time.Since(begin))
				old = new
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}

// One endpoint of a Service that has many: the cost is to be that of one, beside comparing them.
func BenchmarkBigService(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			w := dptest.NewNet(b)
			target, p := started(b, benchConfig(b, w)), many(1)
			p.Services[benchName(0)] = benchService(0, n, 0)
			apply(b, target, nil, p)
			old, i := part(p, 0, benchService(0, n, 0)), 0
			for b.Loop() {
				b.StopTimer()
				i++
				new := part(p, 0, benchService(0, n, i))
				b.StartTimer()
				apply(b, target, old, new)
				old = new
			}
		})
	}
}

// The whole state, into an empty kernel, and over itself.
func BenchmarkStart(b *testing.B) {
	for _, n := range sizes {
		w, p := dptest.NewNet(b), many(n)
		cfg := benchConfig(b, w)
		b.Run(fmt.Sprintf("cold/services=%d", n), func(b *testing.B) {
			for b.Loop() {
				apply(b, started(b, cfg), nil, p)
				b.StopTimer()
				if err := ebpf.Clean(w.FD(), cfg.Pins, false); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
		apply(b, started(b, cfg), nil, p)
		b.Run(fmt.Sprintf("warm/services=%d", n), func(b *testing.B) {
			for b.Loop() {
				apply(b, started(b, cfg), nil, p)
			}
		})
	}
}
