package ebpf_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// through sends a packet of a masqueraded connection from outside to its endpoint: as what it
// arrives there. It is not valid where the packet was dropped.
func (w *world) through(f frame) (at, source netip.AddrPort) {
	w.t.Helper()
	verdict, out := w.ingress(f)
	if verdict != passes {
		return at, source
	}
	_, at = out.ends()
	verdict, out = w.egress(frame{device: "rem", src: f.src, dst: at, proto: f.proto, flags: f.flags})
	if source, _ = out.ends(); verdict != passes || source == f.src {
		w.t.Fatalf("%s to %s: at egress verdict %d, from %s", f.src, f.dst, verdict, source)
	}
	return at, source
}

// back is the way of an answer to such a packet.
func (w *world) back(f frame, at, source netip.AddrPort, flags byte) {
	w.t.Helper()
	verdict, out := w.ingress(frame{device: "rem", src: at, dst: source, proto: f.proto, flags: flags})
	if _, dst := out.ends(); verdict != passes || dst != f.src {
		w.t.Fatalf("an answer to %s: at ingress verdict %d, to %s", f.src, verdict, dst)
	}
	w.answers(f, at, flags)
}

func outside(n int) netip.AddrPort { return from(fmt.Sprintf("192.0.2.100:%d", 40000+n)) }

// The last port is found too.
func TestEveryPortIsUsed(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), func(c *ebpf.Config) { c.SNATPorts = [2]uint16{61000, 61199} })
	used := map[netip.AddrPort]bool{}
	for n := range 200 {
		f := frame{device: "out", src: outside(n), dst: s.nodePort(false), proto: objects.UDP}
		_, source := w.through(f)
		if used[source] || !source.IsValid() {
			t.Fatalf("connection %d comes from %s", n, source)
		}
		used[source] = true
	}
}

// Where all ports are taken, those of connections that both sides have ended serve new ones at
// once; the old ones harm them no more.
func TestPortsOfEndedConnections(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	for name, ended := range map[string]bool{"open": false, "ended": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, planOf(s), func(c *ebpf.Config) { c.SNATPorts = [2]uint16{61000, 61007} })
			for n := range 24 {
				f := frame{device: "out", src: outside(n % 12), dst: s.nodePort(false), proto: objects.TCP, flags: syn}
				at, source := w.through(f)
				if !source.IsValid() {
					if ended || n < 8 {
						t.Fatalf("connection %d is dropped", n)
					}
					return
				}
				w.back(f, at, source, syn|ack)
				f.flags = ack
				w.through(f)
				if !ended {
					continue
				}
				f.flags = fin | ack
				w.through(f)
				w.back(f, at, source, fin|ack)
				f.flags = ack
				w.through(f)
			}
			if !ended {
				t.Error("there were more connections than ports")
			}
		})
	}
}

// The port of a connection that both sides have ended is given to no other for as long as one of them may
// be in TIME_WAIT, while another port is free.
func TestPortsRest(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), func(c *ebpf.Config) { c.SNATPorts = [2]uint16{61000, 61007} })
	begin := func(n int) (frame, netip.AddrPort, netip.AddrPort) {
		f := frame{device: "out", src: outside(n), dst: s.nodePort(false), proto: objects.TCP, flags: syn}
		at, source := w.through(f)
		if !source.IsValid() {
			t.Fatalf("connection %d is dropped", n)
		}
		w.back(f, at, source, syn|ack)
		f.flags = ack
		w.through(f)
		return f, at, source
	}
	f, at, ended := begin(0)
	f.flags = fin | ack
	w.through(f)
	w.back(f, at, ended, fin|ack)
	f.flags = ack
	w.through(f)
	w.age(55 * time.Second) // those that are open last for hours
	for n := 1; n < 8; n++ {
		if _, _, source := begin(n); source == ended {
			t.Fatalf("connection %d has the port of the one that ended, and others are free", n)
		}
	}
	if _, _, source := begin(8); source != ended {
		t.Errorf("the last connection comes from %s, want %s: no other is left", source, ended)
	}
}

// A client comes to an endpoint itself by the ports of a connection to its Service that has ended: the
// answers are the endpoint's own. One that is open keeps its answers.
func TestDirectAfterService(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	for name, f := range map[string]frame{
		"as it is":     {device: "pa", src: from(podA), dst: s.vip(false), proto: objects.TCP},
		"masqueraded":  {device: "out", src: outside(0), dst: s.nodePort(false), proto: objects.TCP},
		"over IPv6":    {device: "pa", src: from("[fd00:10:244:1::2]:40000"), dst: s.vip(true), proto: objects.TCP},
		"at node port": {device: "pa", src: from(podA), dst: s.nodePort(false), proto: objects.TCP},
	} {
		for ended, want := range map[string]bool{"ended": true, "open": false, "reset": true} {
			t.Run(name+"/"+ended, func(t *testing.T) {
				w := newWorld(t, planOf(s), nil)
				at := w.spoke(f, ended)
				direct := frame{device: f.device, src: f.src, dst: at, proto: objects.TCP, flags: syn}
				if verdict, out := w.ingress(direct); verdict != passes {
					t.Fatalf("a SYN to the endpoint: verdict %d", verdict)
				} else if _, to := out.ends(); to != at {
					t.Fatalf("a SYN to the endpoint goes to %s", to)
				}
				direct.device = "rem"
				if _, out := w.egress(direct); want {
					if source, _ := out.ends(); source != f.src {
						t.Errorf("a SYN to the endpoint comes from %s", source)
					}
				}
				if want { // a packet of the other one comes late, to no avail
					w.age(2 * time.Second)
					f.flags = fin | ack
					w.ingress(f)
				}
				_, out := w.egress(frame{device: f.device, src: at, dst: f.src, proto: objects.TCP, flags: syn | ack})
				if source, _ := out.ends(); (source == at) != want {
					t.Errorf("the answer is from %s, the endpoint is %s and the Service %s", source, at, f.dst)
				}
			})
		}
	}
}

// spoke makes a connection, which stays open, or both sides end it, or the endpoint resets it.
func (w *world) spoke(f frame, how string) (at netip.AddrPort) {
	w.t.Helper()
	var source netip.AddrPort
	send := func(flags byte) {
		w.t.Helper()
		f.flags = flags
		verdict, out := w.ingress(f)
		if verdict != passes {
			w.t.Fatalf("%s to %s: verdict %d", f.src, f.dst, verdict)
		}
		_, at = out.ends()
		_, out = w.egress(frame{device: "rem", src: f.src, dst: at, proto: f.proto, flags: flags})
		source, _ = out.ends()
	}
	answer := func(flags byte) {
		w.t.Helper()
		if source == f.src {
			w.answers(f, at, flags)
			return
		}
		w.back(f, at, source, flags)
	}
	send(syn)
	answer(syn | ack)
	send(ack)
	switch how {
	case "ended":
		send(fin | ack)
		answer(fin | ack)
		send(ack)
	case "reset":
		answer(rst)
	}
	return at
}
