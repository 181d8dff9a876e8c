package kit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/record"
)

// throughoutLimit bounds what Throughout watches; atLeast it watches that long.
const (
	throughoutLimit = time.Minute
	atLeast         = 300 * time.Millisecond
)

// loadRate is of each way of UnderLoad, per second. Gaps of 20 ms are noticed.
const loadRate = 50

// UnderLoad is Throughout for several clients at once, of the same servers.
func (s *Spec) UnderLoad(loads []Way, f func(), servers ...Client) {
	for _, l := range loads {
		s.Expect(l.From, l.To, Only(servers...))
	}
	s.throughout(loads, loadRate, throughoutLimit, f, servers)
}

// Throughout makes attempts at a steady rate (per second) while f runs, and demands
// that each was answered by one of the servers. An Expect of the same must have held
// before: here no delay is allowed. It returns what became of them.
func (s *Spec) Throughout(c Client, t Target, rate float64, f func(), servers ...Client) *remote.Results {
	return s.throughout([]Way{{c, t}}, rate, throughoutLimit, f, servers)[0].res
}

// throughout runs a stream of each load while f runs, and beside them control streams:
// the ways that the loads take, past every Service. What fails of a load while its
// control fails too is not the dataplane's. The controls begin first and end last.
func (s *Spec) throughout(loads []Way, rate float64, limit time.Duration, f func(), servers []Client) []*stream {
	if s.planned != nil {
		return s.planStreams(loads, f)
	}
	var ways [][]way // of each load
	var distinct []way
	for _, l := range loads {
		its := s.env.ways(trial{client: l.From, to: l.To, servers: servers})
		ways = append(ways, its)
		for _, w := range its {
			if !slices.ContainsFunc(distinct, w.same) {
				distinct = append(distinct, w)
			}
		}
	}
	first := time.Now()
	// The controls cost a host no more than the loads, however many their ways are.
	controlRate := min(rate, rate*float64(len(loads))/float64(max(1, len(distinct))))
	var controls, streams []*stream
	for _, w := range distinct {
		controls = append(controls, s.start(w, controlRate, limit, func(st *stream) { s.env.count(st.res) }))
	}
	for _, l := range loads {
		streams = append(streams, s.start(way{from: l.From, at: l.To}, rate, limit, func(st *stream) {
			s.attempts += len(st.res.Attempts)
			s.streams = append(s.streams, st.measured(servers))
		}))
	}
	for _, st := range streams {
		s.did(nil, "began a stream of attempts, %g a second: %s to %s", st.rate, st.from.at(), s.frontOf(st.at))
	}
	began := time.Now()
	out, ok := s.protected(func(*Spec) { f() })
	if !ok && !out.apart { // what was lost before the rest is left for a run by itself is lost
		panic(out)
	}
	s.Pause(atLeast - time.Since(began)) // or a quick f is over before the first attempt
	took := time.Since(first)
	for _, st := range slices.Concat(streams, controls) {
		s.must(st.stop(), "the stream of %s to %s", st.from.Name, st.at)
	}
	for i, st := range streams {
		s.judge(st, of(controls, ways[i]), servers)
	}
	if !ok {
		panic(out)
	}
	if took > limit {
		s.Inconclusive("what was to be seen under load took %s, and the streams end after %s", took.Round(time.Millisecond), limit)
	}
	return streams
}

// stream is attempts that go on, by a way through a Service or past it.
type stream struct {
	way
	rate  float64
	began time.Time
	res   *remote.Results // nil: it runs
	stop  func() error
}

// start starts a stream, which ends with the behaviour if not before; ended is told.
func (s *Spec) start(w way, rate float64, limit time.Duration, ended func(*stream)) *stream {
	st := &stream{way: w, rate: rate, began: time.Now()}
	running, err := w.from.probe.Stream(s.ctx, remote.Batch{Network: w.at.network, Target: w.at.to, Rate: rate}, limit)
	s.must(err, "a stream of %s to %s", w.from.Name, w.at)
	st.stop = s.onEndOnce(func() (err error) {
		if st.res, err = running.Stop(context.WithoutCancel(s.ctx)); err == nil {
			ended(st)
		}
		return err
	})
	return st
}

// judge demands that each attempt of a stream was answered by one of the servers.
func (s *Spec) judge(st *stream, controls []*stream, servers []Client) {
	s.asks(st.from, st.at)
	s.tried(trial{client: st.from, to: st.at, n: len(st.res.Attempts), servers: servers, beside: true, res: st.res})
	s.streamed(st, servers)
	s.sound(st.from, st.at, st.res)
	w := s.spread(Only(servers...))
	wrong := w.wrong(st.res, st.from.addrs)
	if wrong == "" {
		return
	}
	failure := fmt.Sprintf("%s to %s: want %s, but %s", st.from.at(), st.at, w.text, wrong)
	for _, c := range controls {
		if c.failedBeside(st, w) {
			s.Inconclusive("%s; control: %s did not reach %s (%s) without a Service then either: %s", failure, c.from.Name, c.to.Name, c.at, c.res.Summary())
		}
	}
	s.Fail("%s", failure)
}

// streamed notes what became of a stream.
func (s *Spec) streamed(st *stream, servers []Client) {
	w := s.spread(Only(servers...))
	w.text += ", all the time"
	s.dialled(Way{st.from, st.at}, w, st.res, w.wrong(st.res, st.from.addrs))
}

// beside is how far apart attempts may be that failed for the same reason: one waits
// for its answer nearly as long.
const beside = time.Second

// failedBeside says whether a control failed around the time that one of a stream's
// attempts did. The hosts' clocks may differ: times count from each stream's beginning.
func (c *stream) failedBeside(st *stream, w Want) bool {
	for i, r := range st.res.Attempts {
		if w.allows(r) {
			continue
		}
		failed := st.began.Add(st.since(i))
		for j, o := range c.res.Attempts {
			if o.Class != remote.OK && c.began.Add(c.since(j)).Sub(failed).Abs() <= beside {
				return true
			}
		}
	}
	return false
}

// since is when an attempt began, from the first one on.
func (st *stream) since(i int) time.Duration {
	return time.Duration(st.res.Attempts[i].At - st.res.Attempts[0].At)
}

// same is whether both go from and to the same.
func (w way) same(o way) bool {
	return w.from.Name == o.from.Name && w.from.router == o.from.router && w.at == o.at
}

// of are the streams that go these ways.
func of(streams []*stream, ways []way) []*stream {
	var out []*stream
	for _, st := range streams {
		if slices.ContainsFunc(ways, st.same) {
			out = append(out, st)
		}
	}
	return out
}

// Stream is what became of attempts that went on while something changed.
type Stream struct {
	Client, Target string
	Rate           float64 // per second
	Sent, Failed   int
	Outages        []Outage
	P50, P99, Max  time.Duration // latencies of answered attempts
}

// Outage is a run of consecutive failed attempts.
type Outage struct {
	// Start is since the stream began. Length is until an attempt began that was
	// answered; without one, until the last attempt ended.
	Start, Length time.Duration
	Failed        int
}

// measured is a stream as the report has it: what none of the servers answered failed.
func (st *stream) measured(servers []Client) Stream {
	out := Stream{Client: st.from.Name, Target: st.at.String(), Rate: st.rate, Sent: len(st.res.Attempts)}
	w := Only(servers...)
	var took []time.Duration
	var run Outage // the one under way, if any of it failed
	end := func(at time.Duration) {
		if run.Failed > 0 {
			run.Length = at - run.Start
			out.Outages, run = append(out.Outages, run), Outage{}
		}
	}
	for i, r := range st.res.Attempts {
		switch {
		case w.allows(r):
			end(st.since(i))
			took = append(took, r.Latency)
			continue
		case run.Failed == 0:
			run.Start = st.since(i)
		}
		run.Failed++
		out.Failed++
	}
	if n := len(st.res.Attempts); n > 0 {
		end(st.since(n-1) + st.res.Attempts[n-1].Latency)
	}
	if slices.Sort(took); len(took) > 0 {
		out.P50, out.P99, out.Max = took[(len(took)-1)*50/100], took[(len(took)-1)*99/100], took[len(took)-1]
	}
	return out
}

// LastAnswer is how long after a moment the last attempt of the client outside began
// that a server answered; 0: it answered none later.
func LastAnswer(res *remote.Results, server Client, since time.Time) time.Duration {
	moment := record.Now() - int64(time.Since(since))
	last := moment
	for _, r := range res.Attempts {
		if r.Name == server.Name {
			last = max(last, r.At)
		}
	}
	return time.Duration(last - moment)
}
