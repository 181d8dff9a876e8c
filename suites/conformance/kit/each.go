package kit

import (
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// waysAtOnce bounds how many clients make attempts at the same time for a behaviour, and
// atOnceOfWay how many each: what comes to one server's socket for UDP at a time, of behaviours
// that run side by side too, is to fit its queue (about 250 datagrams).
const (
	waysAtOnce  = 8
	atOnceOfWay = 4
)

// Each is Expect of every way, of which the first attempts are made side by side: what is
// right then is not asked again, and the others are asked one by one.
func (s *Spec) Each(ways []Way, w Want) {
	if s.planned != nil {
		for _, way := range ways {
			s.Expect(way.From, way.To, w)
		}
		return
	}
	began := time.Now()
	for i, first := range s.sideBySide(ways, w) {
		way := ways[i]
		s.must(first.err, "attempts of %s to %s", way.From.Name, way.To)
		s.asks(way.From, way.To)
		if wrong := s.judged(way.From, way.To, s.spread(w), first.res); wrong != "" {
			s.unexpected(way.From, way.To, w, first.res)
			s.Expect(way.From, way.To, w)
			continue
		}
		s.holds(way.From, way.To, w, began)
		s.told(way.From, way.To, w, first.res)
	}
}

// oneTries makes who spreads pass a way by chance once in 10^8, with two servers: 2^-29.
const oneTries = 30

// EachOne is ExpectOne of every way.
func (s *Spec) EachOne(ways []Way, servers ...Client) {
	for _, way := range ways {
		s.ExpectOne(way.From, way.To, oneTries, servers...)
	}
}

// firsts are the first attempts of a way.
type firsts struct {
	res *remote.Results
	err error
}

func (s *Spec) sideBySide(ways []Way, w Want) []firsts {
	out := make([]firsts, len(ways))
	work := make(chan int)
	var all sync.WaitGroup
	for range min(waysAtOnce, len(ways)) {
		all.Go(func() {
			for i := range work {
				b := w.batch(ways[i].From, ways[i].To)
				if w.timeout == 0 { // else nothing arrives
					b.Concurrency = atOnceOfWay
				}
				out[i].res, out[i].err = ways[i].From.probe.Batch(s.ctx, b)
			}
		})
	}
	for i := range ways {
		work <- i
	}
	close(work)
	all.Wait()
	return out
}
