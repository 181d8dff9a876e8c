package ebpf_test

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/fixtures/need"
)

// Who asks for a Service while entries are replaced, all of them by what they are, gets to its endpoint: the
// kernel gives the memory of what is replaced to the next entry that is written, and who looks for an entry
// just then may find none.
func TestRewritten(t *testing.T) {
	need.That(t, runtime.NumCPU() > 1, "two processors")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var all []service
	for n := range 8 {
		all = append(all, service{number: 1 + n, endpoints: both(2 + n)})
	}
	w := socketWorld(t, planOf(all...), func(c *dataplane.Config) {
		c.Sizes.Frontends, c.Sizes.Endpoints = 64, 64 // full: buckets have more than one entry
	})
	connects, sends := w.connecting(t), w.sending()
	for _, begins := range []struct {
		name, at string
		asks     func(n int, s service) (string, error)
	}{
		{"connect", "plumb_fronts", connects}, {"connect", "plumb_slots", connects},
		{"packet", "plumb_fronts", sends}, {"packet", "plumb_slots", sends},
	} {
		t.Run(begins.name+"/"+begins.at, func(t *testing.T) {
			wrong, n, begin := map[string]int{}, 0, time.Now()
			stop := rewriting(t, w.cfg, begins.at)
			err := w.As(dptest.Self, func() error {
				for ; time.Since(begin) < 4*time.Second; n++ {
					what, err := begins.asks(n/len(all), all[n%len(all)])
					if err != nil {
						return err
					}
					if what != "" {
						wrong[what]++
					}
				}
				return nil
			})
			t.Logf("%d beside %d times all entries", n, stop())
			if err != nil || len(wrong) > 0 {
				t.Errorf("of %d %v, %v", n, wrong, err)
			}
		})
	}
}

// rewriting writes all entries of a map again as they are, until it is stopped: so many times.
func rewriting(t *testing.T, cfg dataplane.Config, name string) (stop func() (times int)) {
	t.Helper()
	m := pinnedMap(t, cfg, name)
	again := batch[[20]byte, [72]byte](m)
	if name == "plumb_slots" {
		again = batch[[8]byte, [20]byte](m)
	}
	var over atomic.Bool
	var writer sync.WaitGroup
	n := 0
	writer.Go(func() {
		for ; !over.Load(); n++ {
			if err := again(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() int {
		over.Store(true)
		writer.Wait()
		return n
	}
}

// batch is a batch of all entries of a map.
func batch[K comparable, V any](m *ebpf.Map) func() error {
	var keys []K
	var values []V
	var k K
	var v V
	it := m.Iterate()
	for it.Next(&k, &v) {
		keys, values = append(keys, k), append(values, v)
	}
	return func() error {
		_, err := m.BatchUpdate(keys, values, nil)
		return errors.Join(it.Err(), err)
	}
}

// connecting connects to a Service, and tells what is wrong with where that leads.
func (w *world) connecting(t *testing.T) func(int, service) (string, error) {
	t.Helper()
	peers := pinnedMap(t, w.cfg, "plumb_udp")
	return func(_ int, s service) (string, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: s.vip(false).Addr().As4(), Port: 80}); err != nil {
			return err.Error(), nil
		}
		cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
		if err != nil {
			return "", err
		}
		var peer struct {
			Asked, Addr     [16]byte
			AskedPort, Port uint16
			Node            uint32
		}
		if err := peers.Lookup(cookie, &peer); errors.Is(err, ebpf.ErrKeyNotExist) {
			return "left as it is", nil
		} else if err != nil {
			return "", err
		}
		if netip.AddrFrom16(peer.Addr).Unmap() != pod(false, 1+s.number).Addr() {
			return "another endpoint", nil
		}
		return "", nil
	}
}

// sending gives a datagram for a Service to the program of a device, and tells what is wrong with where it
// goes. Every client comes again, and is known.
func (w *world) sending() func(int, service) (string, error) {
	const clients = 64
	p := w.program("plumb_ingress")
	w.t.Cleanup(func() { _ = p.Close() })
	begun := uint64(0)
	return func(n int, s service) (string, error) {
		if s.number == 1 && n%clients == 0 { // a round
			now := w.count("new")
			more := now - begun
			begun = now
			if n > clients && more > 0 {
				return "some begun anew", nil
			}
		}
		f := frame{device: "pa", src: netip.AddrPortFrom(from(podA).Addr(), uint16(20000+n%clients)), dst: s.vip(false), proto: objects.UDP}
		verdict, out, err := f.through(p)
		if err != nil {
			return "", err
		}
		if _, dst := out.ends(); verdict != passes || dst != pod(false, 1+s.number) {
			return fmt.Sprintf("verdict %d, to %s", verdict, dst), nil
		}
		return "", nil
	}
}
