package ebpf_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	bpf "github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// What a program makes of a packet: the numbers of linux/pkt_cls.h.
const (
	passes    = -1
	isDropped = 2
	isSent    = 7 // back
)

// The flags of TCP.
const (
	fin = 1
	syn = 2
	rst = 4
	ack = 16
)

// frame is a packet as a device of the node has it.
type frame struct {
	device   string
	ns       *netns.NS        // that has it; nil: the node
	mac      net.HardwareAddr // to which; nil: the device's
	src, dst netip.AddrPort
	proto    objects.Protocol
	flags    byte   // of TCP
	options  []byte // of IPv4, whole words
	fragment uint16 // offset and what else is there; of IPv6, in a header of its own
	body     []byte // what follows the network header, if not TCP or UDP with their headers
	missing  int    // bytes at the end that it says it has
}

func (f frame) v6() bool { return f.dst.Addr().Is6() }

func (f frame) transport() []byte {
	if f.body != nil {
		return f.body
	}
	b := binary.BigEndian.AppendUint16(nil, f.src.Port())
	b = binary.BigEndian.AppendUint16(b, f.dst.Port())
	if f.proto == objects.TCP {
		return append(b, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, f.flags, 1, 0, 0, 0, 0, 0)
	}
	return append(b, 0, 8, 0x12, 0x34) // some checksum
}

// network is the packet without the frame.
func (f frame) network() []byte {
	body := f.transport()
	if f.v6() {
		next := byte(f.proto)
		if f.fragment != 0 {
			header := binary.BigEndian.AppendUint16([]byte{next, 0}, f.fragment)
			next, body = unix.IPPROTO_FRAGMENT, append(append(header, 0, 0, 0, 7), body...)
		}
		b := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(body)+f.missing))
		b = append(append(append(b, next, 64), f.src.Addr().AsSlice()...), f.dst.Addr().AsSlice()...)
		return append(b, body...)
	}
	b := binary.BigEndian.AppendUint16([]byte{byte(0x45 + len(f.options)/4), 0}, uint16(20+len(f.options)+len(body)+f.missing))
	b = binary.BigEndian.AppendUint16(append(b, 0, 7), f.fragment)
	b = append(append(append(b, 64, byte(f.proto), 0, 0), f.src.Addr().AsSlice()...), f.dst.Addr().AsSlice()...)
	b = append(b, f.options...)
	binary.BigEndian.PutUint16(b[10:], ^checksum(b))
	return append(b, body...)
}

// program opens one that is pinned.
func (w *world) program(name string) *bpf.Program {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(ebpf.LayoutFolder(w.cfg.Pins), name+"_*"))
	if err != nil || len(paths) != 1 {
		w.t.Fatalf("programs %s: %v (%v)", name, paths, err)
	}
	p, err := bpf.LoadPinnedProgram(paths[0], nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// run gives a packet to a program as if it crossed a device, and tells what became of it: the
// network packet behind the frame.
func (w *world) run(program string, f frame) (verdict int, out frameOut) {
	w.t.Helper()
	p := w.program(program)
	defer p.Close()
	ns := w.Node
	if f.ns != nil {
		ns = f.ns
	}
	w.in(ns, func() (err error) {
		verdict, out, err = f.through(p)
		return err
	})
	return verdict, out
}

// through is run in the namespace that it is called in.
func (f frame) through(p *bpf.Program) (verdict int, out frameOut, err error) {
	l, err := netlink.LinkByName(f.device)
	if err != nil {
		return 0, nil, err
	}
	mac := l.Attrs().HardwareAddr
	if f.mac != nil {
		mac = f.mac
	}
	return crosses(p, l.Attrs().Index, append(ethernet(mac, f.v6()), f.network()...))
}

// ethernet is the header of a frame.
func ethernet(to net.HardwareAddr, v6 bool) []byte {
	h := append(append([]byte{}, to...), 2, 0, 0, 0, 0, 9, 0x08, 0)
	if v6 {
		h[12], h[13] = 0x86, 0xdd
	}
	return h
}

// crosses gives a frame to a program, in the namespace that it is called in. An error EBADMSG is that
// what the device has summed up is wrong after it: that is looked at but for a refusal, which may be
// cut, and what was summed up is then forgotten.
func crosses(p *bpf.Program, index int, data []byte) (verdict int, out []byte, err error) {
	ctx := make([]byte, 44) // of struct __sk_buff, up to ifindex
	binary.NativeEndian.PutUint32(ctx[40:], uint32(index))
	const checksumComplete = 4 // what the device has summed up is looked at too
	opts := &bpf.RunOptions{Data: data, DataOut: make([]byte, 4096), Context: ctx, Flags: checksumComplete}
	n, err := p.Run(opts)
	wrong := errors.Is(err, unix.EBADMSG)
	if wrong || errors.Is(err, unix.EINVAL) { // EINVAL: before Linux 6.11
		opts.Flags, opts.DataOut = 0, make([]byte, 4096)
		var again error
		if n, again = p.Run(opts); !wrong || again != nil || n == isSent {
			err = again
		}
	}
	return int(int32(n)), opts.DataOut, err
}

func (w *world) ingress(f frame) (int, frameOut) { w.t.Helper(); return w.run("plumb_ingress", f) }
func (w *world) egress(f frame) (int, frameOut)  { w.t.Helper(); return w.run("plumb_egress", f) }

// frameOut is a frame as a program left it.
type frameOut []byte

func (o frameOut) network() []byte { return o[14:] }

// ends are the source and the destination of TCP or UDP.
func (o frameOut) ends() (src, dst netip.AddrPort) {
	ip := o.network()
	at, from, to := int(ip[0]&15)*4, ip[12:16], ip[16:20]
	if ip[0]>>4 == 6 {
		at, from, to = 40, ip[8:24], ip[24:40]
		if ip[6] == unix.IPPROTO_FRAGMENT {
			at += 8
		}
	}
	a, _ := netip.AddrFromSlice(from)
	b, _ := netip.AddrFromSlice(to)
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(ip[at:])), netip.AddrPortFrom(b, binary.BigEndian.Uint16(ip[at+2:]))
}

// goes sends a packet in and expects that it goes on to an endpoint.
func (w *world) goes(f frame) netip.AddrPort {
	w.t.Helper()
	verdict, out := w.ingress(f)
	src, dst := out.ends()
	if verdict != passes || dst == f.dst {
		w.t.Fatalf("%v to %s: verdict %d, to %s", f.proto, f.dst, verdict, dst)
	}
	w.t.Logf("%s to %s goes to %s from %s", f.src, f.dst, dst, src)
	return dst
}

// answers sends what answers a packet out again, and expects that it comes from where that went.
func (w *world) answers(f frame, at netip.AddrPort, flags byte) {
	w.t.Helper()
	verdict, out := w.egress(frame{device: f.device, src: at, dst: f.src, proto: f.proto, flags: flags})
	src, dst := out.ends()
	if verdict != passes || src != f.dst || dst != f.src {
		w.t.Errorf("the answer of %s to %s: verdict %d, from %s to %s, want it from %s", at, f.src, verdict, src, dst, f.dst)
	}
}

// age lets time go by for what is remembered.
func (w *world) age(d time.Duration) {
	w.t.Helper()
	if err := ebpf.Age(w.cfg.Pins, d); err != nil {
		w.t.Fatal(err)
	}
}

func from(a string) netip.AddrPort { return netip.MustParseAddrPort(a) }

func verdictOf(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: verdict %d, want %d", what, got, want)
	}
}
