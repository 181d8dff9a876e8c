package ebpf_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// A frontend's connections are counted as they begin, and what is refused or dropped of it packet
// by packet; on a frontend that is gone, and comes again, nothing is.
func TestTallies(t *testing.T) {
	t.Parallel()
	serving, none, restricted := service{number: 1, endpoints: both(2)}, service{number: 2}, service{number: 3, endpoints: both(2)}
	p := planOf(serving, none, restricted)
	s := p.Services[objects.Name{Namespace: "default", Name: "web-3"}]
	for i := range s.Frontends {
		s.Frontends[i].Restricted = !s.Frontends[i].Key.IsWildcard()
	}
	w := newWorld(t, p, nil)
	udp := func(port uint16) frame {
		f := frame{device: "pa", src: from(podA), dst: serving.vip(false), proto: objects.UDP}
		f.src = from("10.244.1.2:" + map[uint16]string{1: "40001", 2: "40002"}[port])
		return f
	}
	for range 3 {
		w.goes(udp(1))
	}
	w.goes(udp(2))
	w.through(frame{device: "out", src: outside(1), dst: serving.nodePort(false), proto: objects.UDP})
	refused := frame{device: "pa", src: from(podA), dst: none.vip(true), proto: objects.TCP, flags: syn}
	refused.src = podAddr(true)
	w.ingress(refused)
	w.ingress(refused)
	refused.src = from("[::]:1") // not answered
	refused.proto = objects.UDP
	w.ingress(refused)
	w.ingress(frame{device: "pa", src: from(podA), dst: restricted.vip(false), proto: objects.UDP})
	refused = frame{device: "pa", src: from(podA), dst: serving.vip(false), proto: objects.TCP, flags: syn}
	refused.dst = from("10.96.5.1:81") // no frontend
	w.ingress(refused)

	key := func(s service, v6 bool, proto objects.Protocol) plan.Key {
		return plan.Key{Addr: s.vip(v6).Addr(), IPv6: v6, Protocol: proto, Port: 80}
	}
	want := map[plan.Key]ebpf.Tally{
		key(serving, false, objects.UDP):     {Connections: 2},
		{Protocol: objects.UDP, Port: 30201}: {Connections: 1},
		key(none, true, objects.TCP):         {Refused: 2},
		key(none, true, objects.UDP):         {Dropped: 1},
		key(restricted, false, objects.UDP):  {Dropped: 1},
	}
	w.tallied(want)
	text, err := ebpf.Path(p, key(serving, false, objects.UDP), w.cfg.Pins)
	if err != nil {
		t.Fatal(err)
	}
	if line := "so far: 2 connections, 0 packets refused, 0 dropped"; !strings.Contains(text, line) {
		t.Errorf("the path does not say %q:\n%s", line, text)
	}

	less := planOf(none, restricted)
	apply(t, w.target, p, less)
	apply(t, w.target, less, planOf(serving, none, restricted))
	delete(want, key(serving, false, objects.UDP))
	delete(want, plan.Key{Protocol: objects.UDP, Port: 30201})
	w.tallied(want)
	apply(t, w.target, nil, planOf(serving)) // also when it is gone in a take-over
	w.tallied(map[plan.Key]ebpf.Tally{})
}

// What two processors count of one frontend at once is all there.
func TestTalliesOfTwoProcessors(t *testing.T) {
	restricted := service{number: 3, endpoints: both(2)}
	p := planOf(restricted)
	s := p.Services[objects.Name{Namespace: "default", Name: "web-3"}]
	for i := range s.Frontends {
		s.Frontends[i].Restricted = true
	}
	w := newWorld(t, p, nil)
	w.lo()
	const each = 1 << 22
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			verdict, _ := w.time("plumb_ingress", frame{src: from(podA), dst: restricted.vip(false), proto: objects.UDP}, each)
			if verdict != isDropped {
				t.Errorf("it is not dropped but %d", verdict)
			}
		})
	}
	all.Wait()
	w.tallied(map[plan.Key]ebpf.Tally{
		{Addr: restricted.vip(false).Addr(), Protocol: objects.UDP, Port: 80}: {Dropped: 2 * each},
	})
}

func (w *world) tallied(want map[plan.Key]ebpf.Tally) {
	w.t.Helper()
	all, err := w.target.Counted()
	if err != nil {
		w.t.Fatal(err)
	}
	got := all.Tallies
	for k, n := range want {
		if got[k] != n {
			w.t.Errorf("%s: %s, want %s", k, got[k], n)
		}
	}
	for k, n := range got {
		if _, is := want[k]; !is {
			w.t.Errorf("%s: %s, and nothing was counted of it", k, n)
		}
	}
}
