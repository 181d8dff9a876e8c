package ebpf_test

import (
	"net"
	"net/netip"
	"runtime"
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
	var mu sync.Mutex
	seen := map[string]map[string]bool{} // by what was sent: where it arrived, and from where
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
				if seen[string(buf[:k])] == nil {
					seen[string(buf[:k])] = map[string]bool{}
				}
				seen[string(buf[:k])][at.String()+" "+from.String()] = true
				packets++
				mu.Unlock()
			}
		}()
	}
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
	await(t, "all packets arrive", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return packets == 2*flows
	})
	mu.Lock()
	defer mu.Unlock()
	for what, where := range seen {
		if len(where) != 1 {
			t.Errorf("%s arrived at %v", what, where)
		}
	}
	if n := w.count("new"); n != flows {
		t.Errorf("%d connections began, want %d", n, flows)
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
