package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// attempt is one flow of the client: its source port says which it is.
type attempt struct {
	from   uint16
	to     netip.AddrPort
	before string // who answers before the change
	after  string // and who answers the same source port after it
	keeps  bool   // the entry of before stays
}

// Flows of real packets through real rules: which entries a change deletes, and
// who answers the same five-tuple then. The table stands for both families.
func TestStaleFlows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, v6 := range []bool{false, true} {
		x := byFamily[v6]
		a, b, b2 := ap(x.a, 53), ap(x.b, 53), ap(x.b, 5353)
		vip, lb, np, np2 := ap(x.vip, 53), ap(x.lb, 53), ap(x.node, 30053), ap(x.node2, 30053)
		cluster := func(to ...netip.AddrPort) plan.Frontend { return front(plan.ClusterIP, objects.UDP, vip, to...) }
		balancer := func(to ...netip.AddrPort) plan.Frontend { return front(plan.LoadBalancer, objects.UDP, lb, to...) }
		port := func(to ...netip.AddrPort) plan.Frontend { return front(plan.NodePort, objects.UDP, np, to...) }
		// The client reaches the pod itself, at the node port's number.
		transit := attempt{4009, ap(x.b, 30053), "", "", true}
		for _, tc := range []struct {
			name     string
			old, new *plan.Plan
			attempts []attempt
		}{
			{"endpoint removed, every kind of address",
				planOf(cluster(a), balancer(a), front(plan.ExternalIP, objects.UDP, ap(x.lb, 54), a), port(a)),
				planOf(cluster(b), balancer(b), front(plan.ExternalIP, objects.UDP, ap(x.lb, 54), b), port(b)),
				[]attempt{{4001, vip, "a:53", "b:53", false}, {4002, lb, "a:53", "b:53", false}, {4003, ap(x.lb, 54), "a:53", "b:53", false}, {4004, np, "a:53", "b:53", false}, transit}},
			{"endpoint drains: its flows are kept", planOf(cluster(a)), planOf(with(cluster(b), drains(a))),
				[]attempt{{4001, vip, "a:53", "a:53", true}}},
			{"endpoint of the inside only: kept", planOf(port(a)), planOf(with(port(b), func(f *plan.Frontend) { r := route(a, b); f.Inside = &r })),
				[]attempt{{4001, np, "a:53", "a:53", true}}},
			{"endpoint added: nothing is asked", planOf(cluster(a)), planOf(cluster(a, b)), []attempt{{4001, vip, "a:53", "a:53", true}}},
			{"target port", planOf(cluster(b)), planOf(cluster(b2)), []attempt{{4001, vip, "b:53", "b:5353", false}}},
			{"Service deleted", planOf(cluster(a), port(a)), planOf(), []attempt{{4001, vip, "a:53", "", false}, {4002, np, "a:53", "", false}, transit}},
			{"port removed", planOf(cluster(a), front(plan.ClusterIP, objects.UDP, ap(x.vip, 54), a)), planOf(cluster(a)),
				[]attempt{{4001, vip, "a:53", "a:53", true}, {4002, ap(x.vip, 54), "a:53", "", false}}},
			{"type back to ClusterIP", planOf(cluster(a), port(a)), planOf(cluster(a)), []attempt{{4001, vip, "a:53", "a:53", true}, {4002, np, "a:53", "", false}, transit}},
			{"ipMode Proxy, or the VIP is gone", planOf(cluster(a), balancer(a)), planOf(cluster(a)), []attempt{{4001, vip, "a:53", "a:53", true}, {4002, lb, "a:53", "", false}}},
			{"node address gone", at(planOf(port(a)), x.node, x.node2), at(planOf(port(a)), x.node),
				[]attempt{{4001, np, "a:53", "a:53", true}, {4002, np2, "a:53", "", false}}},
			{"zero endpoints", planOf(cluster(a)), planOf(cluster()), []attempt{{4001, vip, "a:53", "", false}}},
			{"zero endpoints, one drains", planOf(cluster(a)), planOf(with(cluster(), drains(a))), []attempt{{4001, vip, "a:53", "a:53", true}}},
			{"zero to one, packets passed untranslated", planOf(), planOf(cluster(a)), []attempt{{4001, vip, "", "a:53", false}}},
			{"node port is new, packets reached the node", planOf(), planOf(port(a)), []attempt{{4001, np, "", "a:53", false}, transit}},
			{"source ranges narrowed", planOf(balancer(a)), planOf(with(balancer(a), onlyFromElsewhere)),
				[]attempt{{4001, lb, "a:53", "", false}}},
			{"another Service takes the address", planOf(front(plan.ExternalIP, objects.UDP, np, a), port(b)), planOf(port(b)), []attempt{{4001, np, "a:53", "b:53", false}}},
			{"nothing changed", planOf(cluster(a), port(a)), planOf(cluster(a), port(a)), []attempt{{4001, vip, "a:53", "a:53", true}, {4002, np, "a:53", "a:53", true}}},
		} {
			t.Run(fmt.Sprintf("ip6=%v/%s", v6, tc.name), func(t *testing.T) {
				w.t = t
				w.forget()
				f := w.newFlows(false)
				w.change(f, nil, tc.old)
				var kept []uint16
				for _, k := range tc.attempts {
					if got := w.ask(w.client, k.from, k.to, k.before); got != k.before {
						t.Errorf("before, %d to %s: answer %q, want %q", k.from, k.to, got, k.before)
					}
					if k.keeps {
						kept = append(kept, k.from)
					}
				}
				if got := w.flows(objects.UDP); len(got) != len(tc.attempts) {
					t.Fatalf("flows of %d, want of all %d", got, len(tc.attempts))
				}
				w.change(f, tc.old, tc.new)
				slices.Sort(kept)
				if diff := cmp.Diff(kept, w.flows(objects.UDP)); diff != "" {
					t.Errorf("client ports of the flows kept (-want +got):\n%s", diff)
				}
				if got, want := f.Stats().Deleted, uint64(len(tc.attempts)-len(kept)); got != want {
					t.Errorf("%d deleted, want %d", got, want)
				}
				if f.plain {
					t.Error("the kernel's filter was given up")
				}
				for _, k := range tc.attempts {
					if got := w.ask(w.client, k.from, k.to, k.after); got != k.after {
						t.Errorf("after, %d to %s: answer %q, want %q", k.from, k.to, got, k.after)
					}
				}
			})
		}
	}
}

// forget empties the node's table.
func (w *world) forget() {
	w.t.Helper()
	k := kernel{netns: w.node.FD(), within: answerWithin}
	defer k.close()
	w.must(k.execute(w.t.Context(), ctDelete, 0, nfgen(false)))
	w.must(k.execute(w.t.Context(), ctDelete, 0, nfgen(true)))
}

// A start knows no "before": nothing is deleted if nothing changed, and what the
// plan proves to be stale is. What no frontend claims is nobody's business.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	for _, v6 := range []bool{false, true} {
		x := byFamily[v6]
		a, b := ap(x.a, 53), ap(x.b, 53)
		vip, other, np, lb := ap(x.vip, 53), ap(x.vip, 54), ap(x.node, 30053), ap(x.lb, 53)
		rest := plan.Frontend{Kind: plan.ClusterIP, Key: plan.Key{IPv6: v6, Addr: x.vip}, Outside: route()}
		cluster := func(at netip.AddrPort, to ...netip.AddrPort) plan.Frontend {
			return front(plan.ClusterIP, objects.UDP, at, to...)
		}
		port := func(to ...netip.AddrPort) plan.Frontend { return front(plan.NodePort, objects.UDP, np, to...) }
		before := planOf(rest, cluster(vip, a), cluster(other, a), port(a), front(plan.LoadBalancer, objects.UDP, lb, a))
		w.t = t
		w.forget()
		w.rules(before)
		for i, to := range []netip.AddrPort{vip, other, np, lb, ap(x.b, 30053), ap(x.b, 53)} {
			w.ask(w.client, uint16(4001+i), to, "")
		}
		all := []uint16{4001, 4002, 4003, 4004, 4005, 4006}
		for _, tc := range []struct {
			name string
			plan *plan.Plan
			keep []uint16
		}{
			{"nothing changed", before, all},
			{"all are draining", planOf(rest, with(cluster(vip, b), drains(a)), with(cluster(other, b), drains(a)), with(port(b), drains(a)), front(plan.LoadBalancer, objects.UDP, lb, a)), all},
			{"an endpoint went, a port of the ClusterIP went, and so did the load balancer, which nobody can tell from somebody else's",
				planOf(rest, cluster(vip, b), port(a)), []uint16{4003, 4004, 4005, 4006}},
			{"nothing is left", planOf(), []uint16{4003, 4004, 4005, 4006}},
		} {
			f := w.newFlows(false)
			w.change(f, nil, tc.plan)
			if diff := cmp.Diff(tc.keep, w.flows(objects.UDP)); diff != "" {
				t.Errorf("ip6=%v, %s: flows kept (-want +got):\n%s", v6, tc.name, diff)
			}
			if s := f.Stats(); s.Dumps > 2 {
				t.Errorf("ip6=%v, %s: %d dumps, want one of a family", v6, tc.name, s.Dumps)
			}
		}
	}
}

// fill makes flows of one client address each, as if they had been translated.
func fill(t testing.TB, k *kernel, number int, dst, from netip.AddrPort) {
	t.Helper()
	for i := range number {
		src := netip.AddrPortFrom(netip.AddrFrom4([4]byte{100, 64, byte(i >> 8), byte(i)}), uint16(1024+i>>16))
		if err := k.execute(t.Context(), ctNew, 0x600, entry(src, dst, from, src)); err != nil {
			t.Fatalf("flow %d: %v", i, err)
		}
	}
}

// entry is a UDP flow to be made, NLM_F_CREATE|NLM_F_EXCL.
func entry(src, dst, from, back netip.AddrPort) []byte {
	nat := put(nil, ctaNatV4Min, from.Addr().AsSlice())
	nat = put(nat, nested|ctaNatProto, put(nil, ctaNatPortMin, be16(from.Port())), put(nil, ctaNatPortMax, be16(from.Port())))
	out := append(nfgen(false), tuple(ctaTupleOrig, objects.UDP, src, dst)...)
	out = append(out, tuple(ctaTupleReply, objects.UDP, dst, back)...)
	out = put(out, ctaTimeout, be32(600))
	const ctaNatDst = 13
	return put(out, nested|ctaNatDst, nat)
}

// Of ten thousand flows of a Service, the one of the endpoint that went is all
// that the kernel sends and all that is deleted.
func TestOneOfTenThousand(t *testing.T) {
	w := newWorld(t)
	x := byFamily[false]
	vip, a, b := ap(x.vip, 53), ap(x.a, 53), ap(x.b, 53)
	k := &kernel{netns: w.node.FD(), within: answerWithin}
	defer k.close()
	fill(t, k, 9999, vip, b)
	if err := k.execute(t.Context(), ctNew, 0x600, entry(ap(x.client, 7), vip, a, ap(x.client, 7))); err != nil {
		t.Fatal(err)
	}
	old, new := planOf(front(plan.ClusterIP, objects.UDP, vip, a, b)), planOf(front(plan.ClusterIP, objects.UDP, vip, b))
	f := w.newFlows(false)
	w.must(f.apply(t.Context(), nil, old))
	start := f.Stats()
	if start.Deleted != 0 || start.Seen != 10000 {
		t.Errorf("at the start %+v, want all seen and none deleted", start)
	}
	w.must(f.apply(t.Context(), old, new))
	s := f.Stats()
	if s.Deleted != 1 || s.Dumps-start.Dumps != 1 || s.Seen-start.Seen != 1 {
		t.Errorf("%+v after %+v, want one question, one flow seen, one deleted", s, start)
	}
	if got := w.flows(objects.UDP); len(got) != 9999 || slices.Contains(got, 7) {
		t.Errorf("%d flows left, or the stale one", len(got))
	}
}

// A flow that ended and began anew between the question and the answer is not
// deleted in place of the stale one.
func TestReborn(t *testing.T) {
	w := newWorld(t)
	x := byFamily[false]
	vip, client := ap(x.vip, 53), ap(x.client, 7)
	k := &kernel{netns: w.node.FD(), within: answerWithin}
	defer k.close()
	w.must(k.execute(t.Context(), ctNew, 0x600, entry(client, vip, ap(x.a, 53), client)))
	var stale flow
	w.must(k.dump(t.Context(), answeredBy(objects.UDP, ap(x.a, 53)), false, func(f flow) { stale = f }))
	if want := (flow{objects.UDP, client, vip, ap(x.a, 53), client, stale.id, 0}); stale != want || stale.id == 0 {
		t.Fatalf("read %+v, want %+v with an id", stale, want)
	}
	if now, there, err := k.read(t.Context(), stale); now != stale || !there || err != nil {
		t.Errorf("read %+v, there %t, error %v; want it as it is", now, there, err)
	}
	w.forget()
	w.must(k.execute(t.Context(), ctNew, 0x600, entry(client, vip, ap(x.b, 53), client)))
	if _, there, err := k.read(t.Context(), stale); there || err != nil {
		t.Errorf("read %v, error %v; want neither", there, err)
	}
	if there, err := k.remove(t.Context(), stale); there || err != nil {
		t.Errorf("removed %v, error %v; want neither", there, err)
	}
	if got := w.flows(objects.UDP); len(got) != 1 {
		t.Errorf("flows of %d, want the new one", got)
	}
}

// A connection that is read anew has the state that it has by now.
func TestReadAnew(t *testing.T) {
	w := newWorld(t)
	x := byFamily[false]
	l := w.listen(w.a, ":80")
	w.rules(planOf(front(plan.ClusterIP, objects.TCP, ap(x.vip, 80), ap(x.a, 80))))
	c := w.connect(w.client, l, ap(x.vip, 80))
	k := &kernel{netns: w.node.FD(), within: answerWithin}
	defer k.close()
	var open flow
	w.must(k.dump(t.Context(), answeredBy(objects.TCP, ap(x.a, 80)), false, func(f flow) { open = f }))
	w.must(errors.Join(c.client.Close(), c.server.Close()))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		now, there, err := k.read(t.Context(), open)
		w.must(err)
		if there && now.state > tcpCloseWait && open.state == tcpEstablished && stateless(now) == stateless(open) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("read %+v, there %t, after %+v", now, there, open)
		}
	}
}

// Entries of another conntrack zone are somebody else's.
func TestOtherZone(t *testing.T) {
	w := newWorld(t)
	x := byFamily[false]
	client := ap(x.client, 7)
	k := &kernel{netns: w.node.FD(), within: answerWithin}
	defer k.close()
	w.must(k.execute(t.Context(), ctNew, 0x600, put(entry(client, ap(x.vip, 53), ap(x.a, 53), client), ctaZone, be16(5))))
	f := w.newFlows(false)
	w.must(f.apply(t.Context(), nil, planOf(front(plan.ClusterIP, objects.UDP, ap(x.vip, 53), ap(x.b, 53)))))
	if s := f.Stats(); s.Seen != 0 || s.Deleted != 0 {
		t.Errorf("%+v, want none of zone 5", s)
	}
}

// What a question costs with so many flows in the table, of which one is stale.
func BenchmarkDump(b *testing.B) {
	for _, flows := range []int{1000, 50000, 200000} {
		w := newWorld(b)
		x := byFamily[false]
		k := &kernel{netns: w.node.FD(), within: answerWithin}
		fill(b, k, flows-1, ap(x.vip, 53), ap(x.b, 53))
		w.must(k.execute(b.Context(), ctNew, 0x600, entry(ap(x.client, 7), ap(x.vip, 53), ap(x.a, 53), ap(x.client, 7))))
		for _, q := range []filter{answeredBy(objects.UDP, ap(x.a, 53)), {protocol: objects.UDP}} {
			b.Run(fmt.Sprintf("flows=%d/%s", flows, map[bool]string{true: "endpoint", false: "family"}[q.from.IsValid()]), func(b *testing.B) {
				seen := 0
				for b.Loop() {
					w.must(k.dump(b.Context(), q, false, func(flow) { seen++ }))
				}
				b.ReportMetric(float64(seen)/float64(b.N), "flows/op")
			})
		}
		w.forget()
		_ = k.close()
	}
}

// An answer that is lost is an error in time, and the end of ctx ends the wait.
func TestAnswerLost(t *testing.T) {
	w := newWorld(t)
	x := byFamily[false]
	begun := entry(ap(x.client, 7), ap(x.vip, 53), ap(x.a, 53), ap(x.client, 7))
	drop, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: 0}})
	w.must(err)
	calls := map[string]func(context.Context, *kernel) error{
		"dump": func(ctx context.Context, k *kernel) error {
			return k.dump(ctx, filter{protocol: objects.UDP}, false, func(f flow) { t.Errorf("read %v", f) })
		},
		"execute": func(ctx context.Context, k *kernel) error { return k.execute(ctx, ctNew, 0x600, begun) },
	}
	for name, call := range calls {
		for _, tc := range []struct {
			name          string
			within, until time.Duration
			want          error
		}{
			{"deadline", 50 * time.Millisecond, time.Hour, os.ErrDeadlineExceeded},
			{"end", time.Hour, 50 * time.Millisecond, context.DeadlineExceeded},
		} {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				k := &kernel{netns: w.node.FD(), within: tc.within}
				defer k.close()
				w.must(errors.Join(k.dial(), k.conn.SetBPF(drop)))
				ctx, cancel := context.WithTimeout(t.Context(), tc.until)
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- call(ctx, k) }()
				select {
				case err := <-done:
					if !errors.Is(err, tc.want) || k.conn != nil {
						t.Errorf("got %v, socket kept: %t; want %v and it closed", err, k.conn != nil, tc.want)
					}
				case <-time.After(time.Minute):
					t.Fatal("still waiting")
				}
			})
		}
	}
}
