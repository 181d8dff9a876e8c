//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/api"
)

// perSlice is how many endpoints the EndpointSlice controller puts into a slice unless it
// is told otherwise.
const perSlice = 100

// Big is what one change costs of a Service with many endpoints.
type Big struct {
	Endpoints int
	Change    Spread
	Ops       int
}

// String is the number of endpoints and the spread.
func (b Big) String() string { return fmt.Sprintf("%d: %s", b.Endpoints, b.Change) }

// big is a Service with many endpoints, apart from the numbered ones.
type big struct {
	n     int
	addrs []netip.Addr
	fresh netip.Addr // the next endpoint
}

func newBig(k, n int) *big {
	b := &big{n: n, fresh: nth(netip.MustParseAddr("10.192.0.1"), k<<17)}
	for range n {
		b.addrs = append(b.addrs, b.next())
	}
	return b
}

func (b *big) next() netip.Addr {
	a := b.fresh
	b.fresh = a.Next()
	return a
}

func (b *big) name() string { return fmt.Sprintf("big-%d", b.n) }

// vip is beyond those of the numbered Services.
func (b *big) vip() netip.Addr { return nth(netip.MustParseAddr("10.111.0.0"), b.n) }

func (b *big) service() *corev1.Service { return serviceOf(b.name(), b.vip(), corev1.ProtocolTCP) }

// slice is the nth of its EndpointSlices.
func (b *big) slice(n int) *discoveryv1.EndpointSlice {
	return sliceOf(b.name(), n, corev1.ProtocolTCP, b.addrs[n*perSlice:min((n+1)*perSlice, b.n)])
}

func (b *big) slices() int { return (b.n + perSlice - 1) / perSlice }

func (b *big) keys() []plan.Key {
	return []plan.Key{{Addr: b.vip(), Protocol: objects.TCP, Port: servicePort}}
}

// replace gives the Service another endpoint for one it has.
func (b *big) replace(r *rand.Rand) (*discoveryv1.EndpointSlice, edit) {
	i := r.IntN(b.n)
	e := edit{keys: b.keys(), gone: b.addrs[i], fresh: []netip.Addr{b.next()}}
	b.addrs[i] = e.fresh[0]
	return b.slice(i / perSlice), e
}

// bigs measures one change of big Services, one after another; they are there as long.
func (s *subject) bigs(ctx context.Context) error {
	if s.row.Shows == nowhere {
		return nil
	}
	for k, n := range s.cfg.Endpoints {
		if n == 0 {
			continue
		}
		b := newBig(k, n)
		err := s.appear(ctx, b)
		if err == nil {
			var got Big
			got, err = s.changesOf(ctx, b)
			s.out.Bigs = append(s.out.Bigs, got)
		}
		err = errors.Join(err, s.kernel.reset(edit{keys: b.keys(), gone: b.addrs[0]}), s.w.forget(b))
		if err == nil {
			err = s.settle()
		}
		if err != nil {
			return fmt.Errorf("a Service of %d endpoints: %w", n, err)
		}
	}
	return nil
}

// appear writes it and waits until it answers.
func (s *subject) appear(ctx context.Context, b *big) error {
	if err := s.kernel.reset(edit{keys: b.keys(), fresh: b.addrs}); err != nil {
		return err
	}
	all := []api.Object{b.service()}
	for n := range b.slices() {
		all = append(all, b.slice(n))
	}
	if err := s.w.api.Apply(all...); err != nil {
		return err
	}
	err := s.await(ctx, time.Now().Add(s.cfg.Limit), func() (there bool, err error) {
		return there, s.w.client.Do(func() error {
			_, err := knock(source(0), netip.AddrPortFrom(b.vip(), servicePort), glance)
			there = err == nil
			return nil
		})
	})
	if err != nil {
		return err
	}
	return s.settle()
}

// settle waits until the kernel has what was written.
func (s *subject) settle() error {
	got, err := s.kernel.settle(time.Now().Add(s.cfg.Limit), s.over)
	if err == nil && got.commits == 0 {
		err = errLimit
	}
	return err
}

func (s *subject) changesOf(ctx context.Context, b *big) (Big, error) {
	r := rand.New(rand.NewPCG(4, uint64(b.n)))
	took, ops, _, err := s.each(ctx, func() (api.Object, edit) { return b.replace(r) })
	return Big{Endpoints: b.n, Change: spread(took, s.cfg.Changes), Ops: median(ops)}, err
}

// forget takes it away again.
func (w *world) forget(b *big) error {
	err := w.api.Delete(api.Services, namespace+"/"+b.name())
	for n := range b.slices() {
		err = errors.Join(err, w.api.Delete(api.EndpointSlices, fmt.Sprintf("%s/%s-%d", namespace, b.name(), n)))
	}
	return err
}
