package ebpf_test

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// TCP sockets that were led to an endpoint which is gone are ended, the node's and those of pods whose
// namespace is known. What was connected to the endpoint itself, and
// what has another one, stays.
func TestResetTCP(t *testing.T) {
	t.Parallel()
	one, other := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(3)}
	p, spaces := planOf(one, other), t.TempDir()
	w := socketWorld(t, p, func(c *ebpf.Config) { c.PodSpaces, c.ResetTCP = spaces, 200*time.Millisecond })
	if err := os.Symlink(w.Place(dptest.PodA).Path(), filepath.Join(spaces, "pod-a")); err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		w.echo(pod(v6, 2))
		w.echo(pod(v6, 3))
	}
	var lost, stay []net.Conn
	for _, v6 := range []bool{false, true} {
		lost = append(lost, w.speaks(dptest.PodA, objects.TCP, one.vip(v6)), w.speaks(dptest.Self, objects.TCP, one.vip(v6)), w.speaks(dptest.Self, objects.TCP, one.nodePort(v6)))
		stay = append(stay, w.speaks(dptest.PodA, objects.TCP, other.vip(v6)), w.speaks(dptest.PodA, objects.TCP, pod(v6, 2)), w.speaks(dptest.Self, objects.TCP, pod(v6, 2)),
			w.speaks(dptest.PodB, objects.TCP, one.vip(v6)))
	}
	w.watched()
	apply(t, w.target, p, planOf(service{number: 1, endpoints: both(3)}, other))
	for _, c := range lost {
		ended(t, c)
	}
	for _, c := range stay {
		if err := talk(c, []byte("x")); err != nil {
			t.Errorf("%s to %s is ended: %v", c.LocalAddr(), c.RemoteAddr(), err)
		}
	}
}

// An endpoint is gone when no TCP frontend names it in any state, and only for so long; it is told once.
func TestNamed(t *testing.T) {
	at := netip.MustParseAddrPort("10.244.2.2:8080")
	e := plan.Endpoint{Addr: at.Addr(), Port: at.Port()}
	with := func(number int, set func(*plan.Frontend)) *plan.Plan {
		p := planOf(service{number: number})
		for _, s := range p.Services {
			for i := range s.Frontends {
				if s.Frontends[i].Key.Protocol == objects.TCP {
					set(&s.Frontends[i])
				}
			}
		}
		return p
	}
	serves := func(f *plan.Frontend) { f.Outside.Endpoints = []plan.Endpoint{e} }
	states := map[string]func(*plan.Frontend){
		"serves": serves, "drains": func(f *plan.Frontend) { f.Draining = []plan.Endpoint{e} }, "is unready": func(f *plan.Frontend) { f.Unready = []plan.Endpoint{e} },
		"serves inside": func(f *plan.Frontend) { f.Inside = &plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{e}} },
	}
	none := with(1, func(*plan.Frontend) {})
	start := time.Now()
	const grace = 5 * time.Second
	for name, state := range states {
		n := ebpf.NewNamed()
		n.Follow(nil, none, start) // a start: nothing was there that could be gone
		if due, _ := n.Due(start.Add(time.Hour), grace); len(due) != 0 {
			t.Errorf("%s: gone at a start: %v", name, due)
		}
		n.Follow(none, with(1, serves), start)
		n.Follow(with(1, serves), with(1, state), start)
		n.Follow(planOf(), with(2, state), start) // another Service has it too
		n.Follow(with(1, state), none, start)
		if due, _ := n.Due(start.Add(time.Hour), grace); len(due) != 0 {
			t.Errorf("%s of another Service: gone: %v", name, due)
		}
		n.Follow(with(2, state), planOf(), start)
		if due, next := n.Due(start.Add(4*time.Second), grace); len(due) != 0 || next != time.Second {
			t.Errorf("%s: before its time %v, the next in %v", name, due, next)
		}
		n.Follow(none, with(1, state), start) // it is back
		if due, next := n.Due(start.Add(time.Hour), grace); len(due) != 0 || next != 0 {
			t.Errorf("%s: back, and gone: %v, %v", name, due, next)
		}
		n.Follow(nil, none, start) // after a failure, with all there is
		if due, _ := n.Due(start.Add(grace), grace); !due[at] || len(due) != 1 {
			t.Errorf("%s: at its time %v", name, due)
		}
		if due, _ := n.Due(start.Add(time.Hour), grace); len(due) != 0 {
			t.Errorf("%s: told twice: %v", name, due)
		}
	}
}
