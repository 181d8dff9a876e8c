package ebpf_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
)

const podA = "10.244.1.2:40000"

// A connection that ends takes nothing with it of another one that has its answers' place by then.
func TestForgetsItsOwn(t *testing.T) {
	t.Parallel()
	one, two := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(2)}
	w := newWorld(t, planOf(one, two), nil)
	first := frame{device: "pa", src: from(podA), dst: one.vip(false), proto: objects.UDP}
	second := first
	second.dst = two.vip(false)
	at := w.goes(first)
	w.age(5 * time.Minute)
	w.goes(second)
	w.answers(second, at, 0)
	w.goes(first) // begins anew, with another port
	w.answers(second, at, 0)
	if n := w.count("taken-port"); n != 1 {
		t.Errorf("%d connections got another port, want 1", n)
	}
}

// A TCP connection that stays open; one that nobody answers is not, nor one whose client has not
// answered the answer; one that has ended is soon over.
func TestTCPLasts(t *testing.T) {
	t.Parallel()
	tcpLasts(t, (*world).lasts)
}

func tcpLasts(t *testing.T, expect func(*world, frame, netip.AddrPort, time.Duration)) {
	s := service{number: 1, endpoints: both(2)}
	type step struct {
		answer bool
		flags  byte
	}
	open := []step{{false, syn}, {true, syn | ack}, {false, ack}}
	for name, c := range map[string]struct {
		steps []step
		lasts time.Duration
	}{
		"SYN":               {open[:1], time.Minute},
		"SYN/ACK":           {open[:2], time.Minute},
		"open":              {open, 6 * time.Hour},
		"one FIN":           {append(open[:3:3], step{false, fin | ack}, step{true, ack}), 2 * time.Minute},
		"one side's FINs":   {append(open[:3:3], step{true, fin | ack}, step{true, fin | ack}), 2 * time.Minute},
		"both FINs":         {append(open[:3:3], step{false, fin | ack}, step{true, fin | ack}, step{false, ack}), 61 * time.Second},
		"RST":               {append(open[:3:3], step{true, rst}), 10 * time.Second},
		"RST and then more": {append(open[:3:3], step{true, rst}, step{false, ack}), 6 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, planOf(s), nil)
			f := frame{device: "pa", src: from(podA), dst: s.vip(false), proto: objects.TCP}
			var at netip.AddrPort
			for _, s := range c.steps {
				if f.flags = s.flags; s.answer {
					w.answers(f, at, s.flags)
				} else {
					at = w.goes(f)
				}
			}
			expect(w, f, at, c.lasts)
		})
	}
}

// lasts expects that an answer is known as one for so long and no longer.
func (w *world) lasts(f frame, at netip.AddrPort, d time.Duration) {
	w.t.Helper()
	answer := frame{device: f.device, src: at, dst: f.src, proto: f.proto, flags: ack}
	for _, c := range []struct {
		later time.Duration
		known bool
	}{{d + 2*time.Second, false}, {-5 * time.Second, true}} {
		w.age(c.later)
		_, out := w.egress(answer)
		if src, _ := out.ends(); (src == f.dst) != c.known {
			w.t.Errorf("known about %s after its last packet: want %t", d, c.known)
		}
	}
}

// swept expects that a sweep deletes what is remembered after so long and no earlier.
func (w *world) swept(d time.Duration) {
	w.t.Helper()
	had := w.remembered("plumb_flows")
	w.age(d - 3*time.Second)
	if n := w.remembered("plumb_flows"); n != had || n == 0 {
		w.t.Errorf("shortly before %s of %d entries %d are there", d, had, n)
	}
	w.age(4 * time.Second)
	if n := w.remembered("plumb_flows"); n != 0 {
		w.t.Errorf("shortly after %s %d entries are there", d, n)
	}
}

// A UDP connection is kept for two minutes where both sides still speak after a second; questions
// and answers are soon forgotten.
func TestUDPLasts(t *testing.T) {
	t.Parallel()
	udpLasts(t, (*world).lasts)
}

func udpLasts(t *testing.T, expect func(*world, frame, netip.AddrPort, time.Duration)) {
	s := service{number: 1, endpoints: both(2)}
	for name, c := range map[string]struct {
		pause time.Duration // below 0: the programs take what is to come for now, and so it stays within a second
		lasts time.Duration
	}{"questions": {-time.Minute, 30 * time.Second}, "a stream": {2 * time.Second, 2 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, planOf(s), nil)
			f := frame{device: "pa", src: from(podA), dst: s.vip(false), proto: objects.UDP}
			at := w.goes(f)
			w.answers(f, at, 0)
			w.age(c.pause)
			at = w.goes(f)
			w.answers(f, at, 0)
			if c.pause < 0 { // nothing was noted anew
				w.age(-c.pause)
			}
			expect(w, f, at, c.lasts)
		})
	}
}

// What another processor saw a moment later than now is not over.
func TestSeenLater(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	f := frame{device: "pa", src: from(podA), dst: s.vip(false), proto: objects.UDP}
	at := w.goes(f)
	w.age(-time.Second)
	w.answers(f, at, 0)
	w.goes(f)
	if n := w.count("new"); n != 1 {
		t.Errorf("%d connections began, want 1", n)
	}
}
