package kit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/promise"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// Words for what became of a behaviour.
const (
	ResultPass         = conformance.Pass
	ResultFail         = conformance.Fail
	ResultSkip         = conformance.Skip         // the cluster lacks what it needs; never a pass
	ResultUnsupported  = conformance.Unsupported  // the dataplane declares not to have it
	ResultInconclusive = conformance.Inconclusive // a control failed, or the harness itself
)

// Result is what became of a behaviour with one IP family.
type Result struct {
	Behaviour Behaviour
	Family    corev1.IPFamily
	Result    conformance.Result
	Reason    string
	Attempts  int
	Delay     time.Duration // longest from a change until the dataplane had followed it
	Took      time.Duration
	Said      []string
	Streams   []Stream // in the order they ended
	Evidence  []string // paths below Config.Dir
	Failure            // of what failed or is inconclusive
	unsound   bool     // the host, not the dataplane, may be why it is inconclusive
	apart     bool     // it is to be asked by itself, for it waited too long for the other family
}

// Failure is what somebody needs to act on one: what was done, what decided it, and who is who.
type Failure struct {
	Sent, Came string // the attempts that decided it, and what came back
	Steps      []conformance.Step
	Legend     []conformance.Named
}

// failure is that of the steps so far.
func (s *Spec) failure(reason string) (f Failure) {
	f.Sent, f.Came = s.sent()
	f.Steps = told(s.steps)
	texts := []string{reason, f.Sent, f.Came, s.printed}
	for _, st := range f.Steps {
		texts = append(texts, st.Did, st.Came)
	}
	f.Legend = s.legend(texts...)
	return f
}

// Runs is how many results Run has of these: one for each IP family.
func (e *Env) Runs(list []Behaviour) int { return len(list) * len(e.cfg.Families) }

// Run runs behaviours in an order that the seed decides: first those that disturb
// nobody, several at once and beside those that wait, long ones before short ones, then the others one by one, some of
// them in all families at once. Each result is handed to done as it is there, one at a time.
func (e *Env) Run(ctx context.Context, list []Behaviour, done func(Result)) {
	rng := rand.New(rand.NewPCG(uint64(e.cfg.Seed), 0))
	list = slices.Clone(list)
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	slices.SortStableFunc(list, func(a, b Behaviour) int { return rank(a) - rank(b) })
	var mu sync.Mutex
	one := func(b Behaviour) {
		for _, f := range e.cfg.Families {
			r := e.untilJudged(ctx, e.run(ctx, b, f))
			mu.Lock()
			done(r)
			mu.Unlock()
		}
	}
	work := make(chan Behaviour)
	var wg sync.WaitGroup
	for _, b := range list {
		if b.Waits {
			wg.Go(func() { one(b) })
		}
	}
	for range max(1, e.cfg.Parallel) {
		wg.Go(func() {
			for b := range work {
				one(b)
			}
		})
	}
	for _, b := range list {
		if !b.Serial && !b.Waits {
			work <- b
		}
	}
	close(work)
	wg.Wait()
	for _, b := range list {
		switch {
		case b.Serial && b.Shares && e.cfg.Parallel > 1:
			for _, r := range e.runTogether(ctx, b) {
				done(e.untilJudged(ctx, r))
			}
		case b.Serial:
			one(b)
		}
	}
}

// rank is lower for what begins before others.
func rank(b Behaviour) int {
	if b.Long {
		return 0
	}
	return 1
}

// runTogether are the results of a behaviour in all families, side by side, but for those that could not go so.
func (e *Env) runTogether(ctx context.Context, b Behaviour) []Result {
	out, with := make([]Result, len(e.cfg.Families)), &together{members: len(e.cfg.Families)}
	var wg sync.WaitGroup
	for i, f := range e.cfg.Families {
		wg.Go(func() { out[i] = e.runWith(ctx, b, f, with) })
	}
	wg.Wait()
	for i, r := range out {
		switch {
		case with.broken:
			out[i].unsound, out[i].apart = false, false // made anew, it would meet what is left
		case r.apart:
			out[i] = e.run(ctx, b, e.cfg.Families[i])
			out[i].Said = append([]string{"asked by itself, for " + r.Reason}, out[i].Said...)
		}
	}
	return out
}

func (e *Env) run(ctx context.Context, b Behaviour, f corev1.IPFamily) Result {
	return e.runWith(ctx, b, f, alone())
}

func (e *Env) runWith(ctx context.Context, b Behaviour, f corev1.IPFamily, with *together) Result {
	r := e.runSpec(ctx, b, f, with)
	if err := with.leave(); err != nil {
		r.unclean(err)
	}
	return r
}

// unclean notes that what a behaviour did is left, where others might meet it.
func (r *Result) unclean(err error) {
	r.unsound = false // what is left would be in the way
	if r.Result == ResultPass {
		r.Result, r.Reason = ResultInconclusive, fmt.Sprintf("clean up: %v", err)
	}
}

func (e *Env) runSpec(ctx context.Context, b Behaviour, f corev1.IPFamily, with *together) (r Result) {
	r = Result{Behaviour: b, Family: f, Result: ResultPass}
	if ctx.Err() != nil {
		r.Result, r.Reason = ResultInconclusive, "the run was interrupted"
		return r
	}
	if since := b.Since(); !promise.Holds(since, e.version) {
		r.Result, r.Reason = ResultSkip, fmt.Sprintf("not applicable: it holds since Kubernetes %s, and the cluster is %s", since, e.version)
		return r
	}
	for _, n := range b.Needs {
		if lacks := e.missing(n); lacks != "" {
			r.Result, r.Reason = ResultSkip, "the cluster lacks "+lacks
			return r
		}
	}
	for _, feature := range b.Features {
		if why, ok := e.cfg.Features[feature]; ok {
			r.Result, r.Reason = ResultUnsupported, fmt.Sprintf("%s: %s", feature, why)
			return r
		}
	}
	if e.denied != nil && slices.Contains(b.Features, FeatureExternalIPs) {
		r.Result, r.Reason = ResultSkip, fmt.Sprintf("the cluster lacks leave to set externalIPs (%v)", e.denied)
		return r
	}
	began := time.Now()
	s := e.spec(ctx, b, f, with)
	watched := func(s *Spec) {
		s.controlNodes()
		b.Run(s)
		s.again()
		s.controlNodes()
	}
	if out, ok := s.protected(watched); !ok {
		if out.result == ResultFail {
			if in := s.where(); in != "" {
				out.reason += " (" + in + ")"
			}
			out = s.confirmed(out) // at once: what hinders the network may not last
			e.keepFrontend(s)
			e.evidence(s, b.Says)
		}
		r.Result, r.Reason, r.unsound, r.apart = out.result, out.reason, out.unsound, out.apart
		if out.result != ResultSkip {
			r.Failure = s.failure(out.reason)
		}
	}
	if err := s.end(); err != nil {
		r.unclean(err)
	}
	r.Attempts, r.Delay, r.Said, r.Streams, r.Evidence, r.Took = s.attempts, s.delay, s.said, s.streams, s.files, time.Since(began)
	return r
}

// confirmed is a failure, or inconclusive if what failed does not work without a
// Service either, or the client could not see whether it did.
func (s *Spec) confirmed(failure outcome) outcome {
	doubt, ok := s.protected((*Spec).control)
	switch {
	case !ok:
		return outcome{result: ResultInconclusive, reason: failure.reason + "; " + doubt.reason, unsound: doubt.unsound}
	case s.last.heldUp():
		return outcome{result: ResultInconclusive, reason: failure.reason + "; each that was not answered ended while the client itself was held up", unsound: true}
	}
	return failure
}

// protected calls a behaviour's function and returns how it ended, if early.
func (s *Spec) protected(f func(*Spec)) (out outcome, ok bool) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case outcome:
			out, ok = p, false
		default:
			out, ok = outcome{result: ResultInconclusive, reason: fmt.Sprintf("the behaviour panicked: %v\n%s", p, debug.Stack())}, false
		}
	}()
	f(s)
	return outcome{}, true
}
