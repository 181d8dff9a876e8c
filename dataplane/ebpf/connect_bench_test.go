package ebpf_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// What the programs at sockets cost: connect(2) of a UDP socket of the node's to a Service, one of so many at random,
// and to an endpoint of its in turn, and the median of the differences between the two of a pair. What of the maps no
// connection has just asked for is in no cache.
//
//	go test -run - -bench Connect -benchtime 100000x ./dataplane/ebpf
func BenchmarkConnect(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			p := many(n)
			for _, s := range p.Services {
				for i := range s.Frontends[1:] { // the first is the rest of the address
					s.Frontends[1+i].Key.Protocol, s.Frontends[1+i].Group.Protocol = objects.UDP, objects.UDP
				}
			}
			w := socketWorld(b, p, func(c *ebpf.Config) { c.Sizes = ebpf.DefaultSizes() })
			var direct, more []time.Duration
			err := w.As(dptest.Self, func() error {
				for b.Loop() {
					i := rand.IntN(n)
					at, err := connects(netip.AddrPortFrom(numbered("10.128.0.0", 3*i), 8080))
					if err != nil {
						return err
					}
					through, err := connects(netip.AddrPortFrom(numbered("10.96.0.0", i), 80))
					if err != nil {
						return err
					}
					direct, more = append(direct, at), append(more, through-at)
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			slices.Sort(direct)
			slices.Sort(more)
			b.ReportMetric(float64(direct[len(direct)/2]), "p50-direct-ns")
			b.ReportMetric(float64(more[len(more)/2]), "p50-more-ns")
			b.ReportMetric(float64(more[len(more)*9/10]-more[len(more)/10]), "p10-p90-more-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// connects tells what connect(2) of a new UDP socket takes.
func connects(to netip.AddrPort) (time.Duration, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	sa := &syscall.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	begin := time.Now()
	err = syscall.Connect(fd, sa)
	return time.Since(begin), err
}
