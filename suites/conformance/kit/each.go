package kit

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

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
// right then is not asked again, and the others, unless they held before, are asked one by one.
func (s *Spec) Each(ways []Way, w Want) {
	if s.planned != nil {
		for _, way := range ways {
			s.Expect(way.From, way.To, w)
		}
		return
	}
	began, held := time.Now(), maps.Clone(s.held)
	all := make([]asking, len(ways))
	for i, way := range ways {
		all[i] = asking{way, w}
	}
	made := s.sideBySide(all)
	var waited time.Duration
	for _, first := range made {
		waited = max(waited, first.waited)
	}
	s.at, began = s.at.Add(waited), began.Add(waited) // which is no lateness
	for i, first := range made {
		way := ways[i]
		if wrong := s.first(all[i], first); wrong != "" {
			s.unexpected(way.From, way.To, w, first.res)
			s.fellBack(way.From, way.To, w, held[w.key(way.From, way.To)] && !s.limited(w, first.res), wrong)
			s.expect(way.From, way.To, w, first.res)
			continue
		}
		s.holds(way.From, way.To, w, began)
		s.told(way.From, way.To, w, first.res)
	}
}

// first judges the first attempts of a way.
func (s *Spec) first(a asking, f firsts) (wrong string) {
	s.must(f.err, "attempts of %s to %s", a.From.at(), a.To)
	s.asks(a.From, a.To)
	return s.judged(a.From, a.To, s.spread(a.want), f.res)
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
	res    *remote.Results
	waited time.Duration
	err    error
}

// asking is a way, and what is wanted of it.
type asking struct {
	Way
	want Want
}

func (s *Spec) sideBySide(all []asking) []firsts {
	out := make([]firsts, len(all))
	work := make(chan int)
	var done sync.WaitGroup
	for range min(waysAtOnce, len(all)) {
		done.Go(func() {
			for i := range work {
				a := all[i]
				atOnce := atOnceOfWay
				if a.want.timeout > 0 { // nothing arrives
					atOnce = silentTry
				}
				out[i].res, out[i].waited, out[i].err = s.tries(a, atOnce)
			}
		})
	}
	for i := range all {
		work <- i
	}
	close(work)
	done.Wait()
	return out
}

// again asks once more, when a behaviour is over, for all that held since the last change:
// nothing may fall back after its first good round. What is wrong then is asked a second time, for
// a datagram may be lost. Refusals are left out, for ICMP is limited, and so is what a record of a
// client decides, which may have timed out.
func (s *Spec) again() {
	all := slices.DeleteFunc(slices.Clone(s.good), func(a asking) bool { return a.want.refusal || s.sticky(a.To) })
	for i, f := range s.sideBySide(all) {
		a := all[i]
		wrong := s.first(a, f)
		if wrong == "" {
			continue
		}
		if _, _, twice := s.attempt(a.From, a.To, a.want); twice != "" {
			s.Fail("%s to %s: want %s, which held, and when the behaviour was over did not: %s; then %s", a.From.at(), a.To, a.want.text, wrong, twice)
		}
	}
}

// sticky tells whether a target is of a Service with affinity.
func (s *Spec) sticky(t Target) bool {
	return slices.ContainsFunc(s.services, func(v *Service) bool {
		_, met := v.met[t]
		return met && v.obj.Spec.SessionAffinity == corev1.ServiceAffinityClientIP
	})
}
