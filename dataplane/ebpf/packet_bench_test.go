package ebpf_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bpf "github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// What a packet costs in the programs alone, as the kernel measures it (ns/packet). A packet that is
// changed is another one the next time, and is measured one by one: with what a cold start costs.
//
//	go test -run - -bench Packet -benchtime 20x ./dataplane/ebpf
func BenchmarkPacket(b *testing.B) {
	// An endpoint that is its own frontend: a packet of it is translated to itself, over and over.
	same, none, limited := service{number: 1, endpoints: both(2)}, service{number: 2}, service{number: 3, endpoints: both(2)}
	p := planOf(same, none, limited)
	for i, f := range p.Services[objects.Name{Namespace: "default", Name: "web-1"}].Frontends {
		for j := range f.Outside.Endpoints {
			f.Outside.Endpoints[j].Addr, f.Outside.Endpoints[j].Port = same.vip(f.Key.IPv6).Addr(), 80
		}
		p.Services[objects.Name{Namespace: "default", Name: "web-1"}].Frontends[i] = f
	}
	for i, f := range p.Services[objects.Name{Namespace: "default", Name: "web-3"}].Frontends {
		f.Restricted = true
		p.Services[objects.Name{Namespace: "default", Name: "web-3"}].Frontends[i] = f
	}
	w := newWorld(b, p, func(c *ebpf.Config) { c.Sizes = ebpf.DefaultSizes() })
	w.lo()
	udp := frame{src: from(podA), dst: same.vip(false), proto: objects.UDP}
	w.time("plumb_ingress", udp, 1)
	back := frame{src: udp.dst, dst: udp.src, proto: objects.UDP}
	for _, c := range []struct {
		name, program string
		f             func(i int) frame
		repeat        int
	}{
		{"other/in", "plumb_ingress", func(int) frame { return frame{src: from(podA), dst: from("203.0.113.9:80"), proto: objects.UDP} }, 1 << 16},
		{"other/out", "plumb_egress", func(int) frame { return frame{src: from(podA), dst: from("203.0.113.9:80"), proto: objects.UDP} }, 1 << 16},
		{"known/in", "plumb_ingress", func(int) frame { return udp }, 1 << 16},
		{"known/out", "plumb_egress", func(int) frame { return back }, 1 << 16},
		{"dropped", "plumb_ingress", func(int) frame { return frame{src: from(podA), dst: limited.vip(false), proto: objects.UDP} }, 1 << 16},
		{"new", "plumb_ingress", func(i int) frame {
			return frame{src: from(fmt.Sprintf("10.244.%d.%d:%d", 1+i>>12&63, 3+i>>8&15, 1024+i&255)), dst: same.vip(false), proto: objects.TCP, flags: syn}
		}, 1},
		{"refused", "plumb_ingress", func(int) frame { return frame{src: from(podA), dst: none.vip(false), proto: objects.UDP} }, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); {
				for range max(1, 1<<12/c.repeat) {
					verdict, one := w.time(c.program, c.f(i), c.repeat)
					if i++; c.name != "refused" || verdict == isSent { // the others are over the limit
						took = append(took, one)
					}
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns/packet")
			b.ReportMetric(float64(took[0]), "min-ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// lo makes the node's loopback a device: it is what a program is tried at where no other is named.
func (w *world) lo() {
	w.t.Helper()
	type device struct {
		_  [32]byte // masquerade addresses
		l2 uint32
		_  [12]byte // flags, and the device's own address
	}
	m, err := bpf.LoadPinnedMap(filepath.Join(ebpf.LayoutFolder(w.cfg.Pins), "plumb_devices"), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer m.Close()
	if err := m.Put(uint32(1), device{l2: 14}); err != nil {
		w.t.Fatal(err)
	}
}

// time gives a packet to a program at loopback so many times, and tells what became of it
// and what one time took.
func (w *world) time(program string, f frame, repeat int) (verdict int, took time.Duration) {
	w.t.Helper()
	p := w.program(program)
	defer p.Close()
	data := append(make([]byte, 12, 128), 0x08, 0)
	binary.BigEndian.PutUint16(data[12:], unix.ETH_P_IP)
	w.in(w.Node, func() error {
		n, one, err := p.Benchmark(append(data, f.network()...), repeat, nil)
		verdict, took = int(int32(n)), one
		return err
	})
	return verdict, took
}
