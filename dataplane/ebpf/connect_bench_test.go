package ebpf_test

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// What the programs at sockets cost: connect(2) of a UDP socket of the node's to a Service, among so many, and to
// its endpoint in turn, and the median of the differences between the two of a pair.
//
//	go test -run - -bench Connect -benchtime 100000x ./dataplane/ebpf
func BenchmarkConnect(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			s := service{number: 1, endpoints: both(2)}
			p := many(n)
			web := objects.Name{Namespace: "default", Name: "web-1"}
			p.Services[web] = planOf(s).Services[web]
			w := socketWorld(b, p, func(c *ebpf.Config) { c.Sizes = ebpf.DefaultSizes() })
			var direct, more []time.Duration
			err := w.As(dptest.Self, func() error {
				for b.Loop() {
					at, err := connects(pod(false, 2))
					if err != nil {
						return err
					}
					through, err := connects(s.vip(false))
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
