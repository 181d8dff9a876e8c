package proxy

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A segment of a pod that is out of its connection's window is translated back like
// any other once the privileged set-up is done. Before, conntrack calls it invalid
// and the client gets it from the pod's own address (kubernetes issue 74839).
func TestInvalidDoesNotLeak(t *testing.T) {
	n := dptest.NewNet(t)
	vip, pod := netip.MustParseAddrPort("10.96.0.10:80"), netip.AddrPortFrom(dptest.PodA.Addrs()[0], 8080)
	target := nftables.New(nftables.Config{Logger: slog.New(slog.DiscardHandler), NetNS: n.FD()})
	t.Cleanup(func() { _ = target.Close() })
	f := plan.Frontend{
		Key:     plan.Key{Addr: vip.Addr(), Protocol: objects.TCP, Port: vip.Port()},
		Outside: plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: pod.Addr(), Port: pod.Port(), Local: true}}},
	}
	if err := target.Apply(t.Context(), nil, &plan.Plan{Services: map[objects.Name]plan.Service{{Name: "web"}: {Frontends: []plan.Frontend{f}}}}); err != nil {
		t.Fatal(err)
	}
	client, server := connected(t, n.Place(dptest.PodB), n.Place(dptest.PodA), vip, pod)
	here := netip.MustParseAddrPort(client.LocalAddr().String())
	sources := func() []string { return strays(t, n.Place(dptest.PodA), n.Place(dptest.PodB), pod, here) }

	if got := strings.Join(sources(), " "); !strings.Contains(got, pod.Addr().String()) {
		t.Fatalf("before the set-up segments out of the window come from %s, none from the pod: this test says nothing", got)
	}
	w := &world{ns: n.Node}
	if _, log, code := w.call(t, "--init-only"); code != 0 {
		t.Fatalf("exit %d, said:\n%s", code, log)
	}
	for _, got := range sources() {
		if got != vip.Addr().String() {
			t.Errorf("a segment out of the window comes from %s, want %s", got, vip.Addr())
		}
	}
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		t.Errorf("the connection is broken: %v", err)
	}
}

// connected is a connection from one namespace to a server in another.
func connected(t *testing.T, from, at *netns.NS, to, serving netip.AddrPort) (client, server net.Conn) {
	t.Helper()
	var ln *net.TCPListener
	err := at.Do(func() (err error) { ln, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(serving)); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = from.Do(func() (err error) { client, err = net.DialTimeout("tcp", to.String(), patience); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	_ = ln.SetDeadline(time.Now().Add(patience))
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	_ = client.SetReadDeadline(time.Now().Add(patience))
	return client, server
}

// strays sends two segments of a connection, half of all sequence numbers apart, so
// that one of them is beyond the window, wherever that is. It returns where the
// client sees them come from.
func strays(t *testing.T, from, at *netns.NS, src, dst netip.AddrPort) []string {
	t.Helper()
	raw := func(ns *netns.NS, a netip.Addr) (c net.PacketConn) {
		if err := ns.Do(func() (err error) { c, err = net.ListenPacket("ip4:tcp", a.String()); return err }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	sender, receiver := raw(from, src.Addr()), raw(at, dst.Addr())
	_ = receiver.SetReadDeadline(time.Now().Add(patience))
	for _, sequence := range []uint32{0, 1 << 31} {
		if _, err := sender.WriteTo(segment(src, dst, sequence), &net.IPAddr{IP: dst.Addr().AsSlice()}); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	for buf := make([]byte, 2048); len(out) < 2; {
		k, source, err := receiver.ReadFrom(buf)
		if err != nil {
			t.Fatalf("%d of 2 segments arrived: %v", len(out), err)
		}
		if strings.HasSuffix(string(buf[:k]), stray) {
			out = append(out, source.String())
		}
	}
	return out
}

// stray is what such a segment carries.
const stray = "stray"

// segment is a TCP segment of IPv4 with a checksum that is right.
func segment(src, dst netip.AddrPort, sequence uint32) []byte {
	const length, ack = 20, 0x10
	out := binary.BigEndian.AppendUint16(nil, src.Port())
	out = binary.BigEndian.AppendUint16(out, dst.Port())
	out = binary.BigEndian.AppendUint32(out, sequence)
	out = append(out, 0, 0, 0, 0, length/4<<4, ack, 0xff, 0xff, 0, 0, 0, 0)
	out = append(out, stray...)
	pseudo := append(src.Addr().AsSlice(), dst.Addr().AsSlice()...)
	pseudo = append(pseudo, 0, 6, 0, byte(len(out)))
	var sum uint32
	all := append(append(pseudo, out...), 0) // an even number
	for i := 0; i+1 < len(all); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(all[i:]))
	}
	for sum>>16 > 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(out[16:], ^uint16(sum))
	return out
}
