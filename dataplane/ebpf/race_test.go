package ebpf_test

import (
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// The first two packets of a connection come on two processors at once: both go to one endpoint,
// with one source.
func TestTwoProcessors(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("this host has one processor")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const flows = 400
	s := service{number: 1}
	for n := range 5 {
		s.endpoints = append(s.endpoints, both(2+n)...)
	}
	w := newWorld(t, planOf(s), nil)
	seen := collect(t, w)
	for i := range flows {
		port := uint16(42000 + i)
		var pair [2]net.Conn
		for j := range pair {
			c, err := w.dial(dptest.Outside, objects.UDP, port, s.nodePort(false))
			if err != nil {
				t.Fatal(err)
			}
			pair[j] = c
		}
		atOnce(pair, netip.AddrPortFrom(dptest.Outside.Addrs()[0], port).String())
		for _, c := range pair {
			_ = c.Close()
		}
	}
	for what, where := range seen(2 * flows) {
		if len(where) != 1 {
			t.Errorf("%s arrived at %v", what, where)
		}
	}
	if n := w.count("new"); n != flows {
		t.Errorf("%d connections began, want %d", n, flows)
	}
}

// collect listens at five endpoints. What it gives waits for a number of packets, and tells by what
// was sent where it arrived, and from where.
func collect(t *testing.T, w *world) (seen func(packets int) map[string]map[string]bool) {
	var mu sync.Mutex
	all := map[string]map[string]bool{}
	packets := 0
	for n := range 5 {
		at := pod(false, 2+n)
		c := listen(t, w, at)
		go func() {
			buf := make([]byte, 64)
			for {
				k, from, err := c.ReadFromUDPAddrPort(buf)
				if err != nil {
					return
				}
				mu.Lock()
				if all[string(buf[:k])] == nil {
					all[string(buf[:k])] = map[string]bool{}
				}
				all[string(buf[:k])][at.String()+" "+from.String()] = true
				packets++
				mu.Unlock()
			}
		}()
	}
	return func(want int) map[string]map[string]bool {
		await(t, "all packets arrive", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return packets == want
		})
		return all
	}
}

// The first two connections of a client come on two processors at once: both go to one endpoint,
// where the Service keeps its clients.
func TestTwoProcessorsOneClient(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("this host has one processor")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const clients = 250
	s := service{number: 1, sticky: true}
	for n := range 5 {
		s.endpoints = append(s.endpoints, both(2+n)...)
	}
	w := newWorld(t, planOf(s), nil)
	seen := collect(t, w)
	for i := range clients {
		client := netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})
		var pair [2]net.Conn
		w.in(w.Place(dptest.Outside), func() (err error) {
			for j := range pair {
				pair[j], err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(client, 0)), net.UDPAddrFromAddrPort(s.nodePort(false)))
				if err != nil {
					return err
				}
			}
			return nil
		})
		atOnce(pair, client.String())
		for _, c := range pair {
			_ = c.Close()
		}
	}
	for client, where := range seen(2 * clients) {
		at := map[string]bool{}
		for a := range where {
			endpoint, _, _ := strings.Cut(a, " ")
			at[endpoint] = true
		}
		if len(at) != 1 {
			t.Errorf("what %s sent arrived at %v", client, at)
		}
	}
}

// atOnce sends from two threads on two processors at one moment.
func atOnce(pair [2]net.Conn, what string) {
	at := time.Now().Add(200 * time.Microsecond)
	var both sync.WaitGroup
	for cpu, c := range pair {
		both.Go(func() {
			runtime.LockOSThread() // thrown away with the thread: it stays on its processor
			var one unix.CPUSet
			one.Set(cpu)
			_ = unix.SchedSetaffinity(0, &one)
			for time.Now().Before(at) {
			}
			_, _ = c.Write([]byte(what))
		})
	}
	both.Wait()
}

// What the map had no room for is made again while the connection goes on.
func TestEvicted(t *testing.T) {
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	w.echo(pod(false, 2))
	c, err := w.dial(dptest.Outside, objects.UDP, 0, s.nodePort(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := talk(c, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if n := ebpf.ForgetAnswers(w.cfg.Pins); n != 2 {
		t.Fatalf("%d entries for answers, want 2", n)
	}
	// Entries are looked at once in a second.
	await(t, "the connection goes on", func() bool {
		if _, err := c.Write([]byte("y")); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Read(make([]byte, 1))
		return err == nil
	})
}
