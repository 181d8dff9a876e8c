package ebpf_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
)

// What traffic between pods costs that is for no Service, with the programs at all devices and without:
// two networks alike, of which one has them with 1 000 Services, take turns in random order. A turn is
// 100 ms of one of: a stream of TCP, which crosses the node in large segments; a byte there and back;
// datagrams of one byte that nobody reads, of which hardly anything but the node's work is left.
// Reported are the medians of the ratios of each pair of turns, with to without: of what went through, and
// of the processor time of each byte, turn or datagram.
//
//	go test -run - -bench Other -benchtime 100x ./dataplane/ebpf
func BenchmarkOther(b *testing.B) {
	with, without := dptest.NewNet(b), dptest.NewNet(b)
	apply(b, started(b, benchConfig(b, with)), nil, many(1000))
	nets := []*dptest.Net{without, with}
	for _, kind := range []struct {
		name string
		open func(testing.TB, *dptest.Net) traffic
	}{{"stream", stream}, {"there-and-back", thereAndBack}, {"datagrams", datagrams}} {
		b.Run(kind.name, func(b *testing.B) {
			sides := []traffic{kind.open(b, nets[0]), kind.open(b, nets[1])}
			var through, cpu []float64
			for b.Loop() {
				var n, each [2]float64
				for _, k := range rand.Perm(2) {
					var err error
					if n[k], each[k], err = oneTurn(sides[k]); err != nil {
						b.Fatal(err)
					}
				}
				through, cpu = append(through, n[1]/n[0]), append(cpu, each[1]/each[0])
			}
			slices.Sort(through)
			slices.Sort(cpu)
			b.ReportMetric(through[len(through)/2], "p50-through-ratio")
			b.ReportMetric(through[len(through)*9/10]-through[len(through)/10], "p10-p90-through-ratio")
			b.ReportMetric(cpu[len(cpu)/2], "p50-cpu-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// traffic sends some more, and tells how much. What is on its way may have to arrive before the turn is over.
type traffic struct {
	send    func() (int, error)
	arrived func(sent int) bool // nil: it has
}

// oneTurn tells how much went through a second, and what each took of this process, whose threads do the
// node's work as well.
func oneTurn(t traffic) (rate, cpu float64, err error) {
	var before, after unix.Rusage
	err = unix.Getrusage(unix.RUSAGE_SELF, &before)
	if err != nil {
		return 0, 0, err
	}
	begin, n := time.Now(), 0
	for time.Since(begin) < 100*time.Millisecond {
		more, err := t.send()
		if err != nil {
			return 0, 0, err
		}
		n += more
	}
	for t.arrived != nil && !t.arrived(n) {
		time.Sleep(20 * time.Microsecond)
	}
	took := time.Since(begin)
	err = unix.Getrusage(unix.RUSAGE_SELF, &after)
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	return float64(n) / took.Seconds(), float64(used) / float64(n), err
}

// podB is another pod of the same node.
var podB = netip.MustParseAddrPort("10.244.1.6:9000")

// dialPod connects pod-a with a server of pod-b.
func dialPod(b testing.TB, n *dptest.Net, serve func(net.Conn)) net.Conn {
	b.Helper()
	var ln net.Listener
	var c net.Conn
	err := n.Place(dptest.PodB).Do(func() (err error) {
		var lc net.ListenConfig
		ln, err = lc.Listen(b.Context(), "tcp", podB.String())
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		c, err := ln.Accept()
		if err == nil {
			serve(c)
			_ = c.Close()
		}
	}()
	err = n.Place(dptest.PodA).Do(func() (err error) {
		c, err = new(net.Dialer).DialContext(b.Context(), "tcp", podB.String())
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close(); _ = ln.Close() })
	return c
}

func stream(b testing.TB, n *dptest.Net) traffic {
	var got atomic.Int64
	c := dialPod(b, n, func(c net.Conn) {
		for buf := make([]byte, 1<<18); ; {
			n, err := c.Read(buf)
			if got.Add(int64(n)); err != nil {
				return
			}
		}
	})
	buf, before := make([]byte, 1<<18), int64(0)
	return traffic{func() (int, error) { return c.Write(buf) }, func(sent int) bool {
		if got.Load() < before+int64(sent) {
			return false
		}
		before += int64(sent)
		return true
	}}
}

func thereAndBack(b testing.TB, n *dptest.Net) traffic {
	c := dialPod(b, n, func(c net.Conn) { _, _ = io.Copy(c, c) })
	buf := make([]byte, 1)
	return traffic{send: func() (int, error) {
		if _, err := c.Write(buf); err != nil {
			return 0, err
		}
		return c.Read(buf)
	}}
}

func datagrams(b testing.TB, n *dptest.Net) traffic {
	at := &unix.SockaddrInet4{Addr: podB.Addr().As4(), Port: int(podB.Port())}
	open := func(source dptest.Source, use func(fd int) error) int {
		var fd int
		err := n.Place(source).Do(func() (err error) {
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			return use(fd)
		})
		if err != nil {
			b.Fatal(fmt.Errorf("open a socket: %w", err))
		}
		b.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	open(dptest.PodB, func(fd int) error { return unix.Bind(fd, at) })
	from := open(dptest.PodA, func(fd int) error { return unix.Connect(fd, at) })
	return traffic{send: func() (int, error) {
		for range 64 {
			if _, err := unix.Write(from, []byte{0}); err != nil {
				return 0, err
			}
		}
		return 64, nil
	}}
}
