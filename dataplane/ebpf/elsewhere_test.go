package ebpf_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// The port of a connection that rules of netfilter masquerade is given to no other one to that endpoint,
// for as long as it goes on; its packets pass as they are.
func TestPortsOfOthers(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	endpoint := netip.MustParseAddrPort("10.244.2.2:8080")
	node := netip.MustParseAddr("192.0.3.1") // of the device that leads there
	for name, proto := range map[string]objects.Protocol{"tcp": objects.TCP, "udp": objects.UDP} {
		t.Run(name, func(t *testing.T) {
			var asked [2]uint16
			theirs := netip.AddrPortFrom(node, 61000)
			w := newWorld(t, planOf(s), func(c *ebpf.Config) {
				c.SNATPorts = [2]uint16{61000, 61001}
				c.Elsewhere = func(_ context.Context, ports [2]uint16) ([]ebpf.Elsewhere, error) {
					asked = ports
					return []ebpf.Elsewhere{{Protocol: proto, Endpoint: endpoint, Source: theirs}}, nil
				}
			})
			if asked != [2]uint16{61000, 61001} {
				t.Fatalf("asked for ports %d", asked)
			}
			for n := range 3 {
				f := frame{device: "out", src: outside(n), dst: s.nodePort(false), proto: proto, flags: syn}
				at, source := w.through(f)
				if want := n == 0; source.IsValid() != want || want && (source.Port() != 61001 || source.Addr() != node || at != endpoint) {
					t.Errorf("connection %d: from %s to %s; only the first one has a port", n, source, at)
				}
			}
			for range 2 {
				w.age(time.Minute)
				answer := frame{device: "rem", src: endpoint, dst: theirs, proto: proto, flags: ack}
				verdict, out := w.ingress(answer)
				if src, dst := out.ends(); verdict != passes || src != answer.src || dst != answer.dst {
					t.Errorf("an answer: verdict %d, %s to %s", verdict, src, dst)
				}
				question := frame{device: "rem", src: theirs, dst: endpoint, proto: proto, flags: ack}
				verdict, out = w.egress(question)
				if src, dst := out.ends(); verdict != passes || src != question.src || dst != question.dst {
					t.Errorf("a question: verdict %d, %s to %s", verdict, src, dst)
				}
				for n := range 3 { // the first one's port may be free by now
					if _, source := w.through(frame{device: "out", src: outside(9 + n), dst: s.nodePort(false), proto: proto, flags: syn}); source == theirs {
						t.Errorf("a connection got %s a minute later", source)
					}
				}
			}
		})
	}
}

// Connections that began while the programs came are found by the next sweep that can ask, and nobody is
// asked after that.
func TestOthersAreAskedForOnceMore(t *testing.T) {
	t.Parallel()
	asked, fails := 0, errors.New("nobody answers")
	var err error
	w := newWorld(t, planOf(service{number: 1, endpoints: both(2)}), func(c *ebpf.Config) {
		c.Elsewhere = func(context.Context, [2]uint16) ([]ebpf.Elsewhere, error) {
			asked++
			return nil, err
		}
	})
	for i, want := range []struct {
		answer error
		asked  int
	}{{fails, 2}, {nil, 3}, {nil, 3}} {
		err = want.answer
		if got := w.target.Sweep(t.Context()); !errors.Is(got, want.answer) || asked != want.asked {
			t.Errorf("sweep %d: %v, asked %d times; want %v and %d", i+1, got, asked, want.answer, want.asked)
		}
	}
}
