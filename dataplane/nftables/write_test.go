package nftables

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// wide is a plan of n Services of ten endpoints.
func wide(n int) *plan.Plan {
	p := &plan.Plan{Services: map[objects.Name]plan.Service{}}
	addr := func(net byte, i int) netip.Addr {
		return netip.AddrFrom4([4]byte{net, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	for i := range n {
		f := plan.Frontend{
			Key:     plan.Key{Addr: addr(10, i), Protocol: objects.TCP, Port: 80},
			Outside: plan.Route{Action: plan.Forward},
		}
		for j := range 10 {
			f.Outside.Endpoints = append(f.Outside.Endpoints, plan.Endpoint{Addr: addr(11, 10*i+j), Port: 8080})
		}
		p.Services[objects.Name{Namespace: "ns", Name: fmt.Sprint(i)}] = plan.Service{Frontends: []plan.Frontend{f}}
	}
	return p
}

// BenchmarkWrite is what a first Apply, from a plan to rules, takes of the time that the kernel
// takes for the same elements, prepared before and written in as few transactions as fit.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{10_000, 44_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			p, whole, alone := wide(n), time.Duration(0), time.Duration(0)
			// Somebody listens, as an agent does: the kernel tells of each element.
			target := func() *Target {
				t := New(Config{Logger: slog.New(slog.DiscardHandler), NetNS: netns.ForTest(b, "write").FD()})
				if err := t.Apply(b.Context(), nil, &plan.Plan{}); err != nil {
					b.Fatal(err)
				}
				ended := make(chan error, 1)
				ctx, stop := context.WithCancel(b.Context())
				go func() { ended <- t.Watch(ctx, func() {}) }()
				b.Cleanup(func() {
					stop()
					if err := <-ended; err != nil {
						b.Error(err)
					}
				})
				return t
			}
			apply := func(t *Target, p *plan.Plan) {
				if err := t.Apply(context.Background(), nil, p); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				first := target()
				begin := time.Now()
				apply(first, p)
				whole += time.Since(begin)
				second := target()
				alone += kernelAlone(b, second, p)
				for _, t := range []*Target{first, second} {
					if err := t.Close(); err != nil {
						b.Fatal(err)
					}
				}
			}
			each := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(b.N) }
			b.ReportMetric(each(whole), "ms/apply")
			b.ReportMetric(each(alone), "ms/kernel")
			b.ReportMetric(each(whole)/each(alone), "ratio")
		})
	}
}

func kernelAlone(b *testing.B, t *Target, p *plan.Plan) (took time.Duration) {
	if err := t.Close(); err != nil {
		b.Fatal(err)
	}
	conn, err := dial(t.netns, t.port) // which its Watch leaves out
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	o, all := newOps(), &batch{}
	o.replace(nil, planElements(p))
	o.write(t.fam, all)
	for len(all.msgs) > 0 {
		part := &batch{}
		for len(all.msgs) > 0 && part.bytes()+2*messageHeader+len(all.msgs[0].Data) < conn.room {
			part.msgs, all.msgs = append(part.msgs, all.msgs[0]), all.msgs[1:]
		}
		begin := time.Now()
		if err := conn.send(part); err != nil {
			b.Fatal(err)
		}
		took += time.Since(begin)
	}
	return took
}
