package kit

import (
	"fmt"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/cell"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/report/render"
)

// step is one thing that a behaviour did. Steps are what a report of a failure has of the
// function, which its readers do not.
type step struct {
	at    time.Duration // since the behaviour began, when it was over
	did   string
	came  string                 // what came of it; empty: it was done
	wrong bool                   // which is not what was wanted
	dial  *dial                  // nil: it is no attempt
	hand  func(h *byHand) string // the same by hand; nil: nobody can, or it is an attempt
}

// dial is attempts of a client, which may be made again and again until they come to what is wanted.
type dial struct {
	way    Way
	path   string // asked for by HTTP
	source bool   // it matters which source servers see
	n      int    // attempts of the last round
	held   bool   // each round so far was as wanted
	rounds int
	first  time.Duration // when the first round was over
}

// did notes a step; by is how it is done by hand.
func (s *Spec) did(by func(h *byHand) string, format string, args ...any) {
	if s.planned == nil {
		s.steps = append(s.steps, step{at: time.Since(s.began), did: fmt.Sprintf(format, args...), hand: by})
	}
}

// dialled notes a round of attempts: of what is wanted (empty: that is decided later), and in what
// it was wrong. Rounds of the same way that follow one another are one step.
func (s *Spec) dialled(w Way, want Want, res *remote.Results, wrong string) {
	came := wrong
	if wrong == "" {
		came = "as wanted: " + res.Summary().String()
	}
	if want.text == "" {
		came = res.Summary().String()
	}
	s.round(dial{way: w, source: want.source != nil, n: len(res.Attempts)}, "dialled "+s.frontOf(w.To)+render.Prefixed("; wanted ", want.text)+render.Prefixed(", seen as ", want.sources), came, wrong != "")
}

// continues tells whether a round goes on with what a step has begun: until it comes to what is wanted,
// or while it does.
func (st step) continues(d dial, did string, wrong bool) bool {
	if was := st.dial; was == nil || was.way.From.at() != d.way.From.at() || was.way.To != d.way.To || was.path != d.path {
		return false
	}
	return st.wrong || st.dial.held && !wrong && st.did == did
}

// round notes what a round came to.
func (s *Spec) round(d dial, did, came string, wrong bool) {
	now := time.Since(s.began)
	did = d.way.From.at() + " " + did
	d.rounds, d.first, d.held = 1, now, !wrong
	if n := len(s.steps); n > 0 {
		if was := s.steps[n-1]; was.continues(d, did, wrong) {
			d.rounds, d.first, d.held = was.dial.rounds+1, was.dial.first, was.dial.held
			if d.n < was.dial.n { // a knock says less than a round
				did, d.n, d.source = was.did, was.dial.n, was.dial.source
			}
			s.steps = s.steps[:n-1]
		}
	}
	s.steps = append(s.steps, step{at: now, did: did, came: came, wrong: wrong, dial: &d})
}

// maxSteps are told of a failure, and of each so much. Attempts that came to what was wanted are left
// out first, then what is oldest.
const (
	maxSteps = 40
	maxCame  = 300
)

// told are the steps of a report.
func told(all []step) (out []conformance.Step) {
	spare := len(all) - maxSteps
	left := 0
	for i, st := range all {
		later := len(all) - i - 1
		if asWanted := st.dial != nil && !st.wrong; asWanted && left < spare && later > 0 {
			left++
			continue
		}
		out = append(out, st.report())
	}
	if more := len(out) - maxSteps; more > 0 {
		left, out = left+more, out[more:]
	}
	if left > 0 {
		out = append([]conformance.Step{{Did: fmt.Sprintf("%d steps of %d are left out here: attempts that came to what was wanted, from the first on", left, len(all))}}, out...)
	}
	return out
}

func (st step) report() conformance.Step {
	came := st.came
	if d := st.dial; d != nil && d.rounds > 1 {
		came = fmt.Sprintf("%d times since %s, at last: %s", d.rounds, d.first.Round(time.Millisecond), came)
	}
	if len(came) > maxCame {
		came = strings.ToValidUTF8(came[:maxCame], "") + "…"
	}
	return conformance.Step{At: conformance.Duration(st.at.Round(time.Millisecond)), Did: st.did, Came: came, Wrong: st.wrong}
}

// sent says what the attempts were that decided a failure, and came what came back.
func (s *Spec) sent() (sent, came string) {
	t := s.last
	if t.client.Name == "" {
		return "", ""
	}
	from := render.Joined(" ", t.client.at(), render.Parens(s.whoIs(t.client)))
	if t.path != "" {
		return fmt.Sprintf("a request of http://%s%s, from %s", t.to.to, t.path, from), t.said
	}
	sent = fmt.Sprintf("%s by %s, from %s to %s", render.Plural(t.n, "attempt"), strings.ToUpper(string(t.to.network)), from, s.frontOf(t.to))
	if t.res == nil {
		return sent, ""
	}
	came = t.res.Summary().String()
	for i, r := range t.res.Attempts {
		if i == maxAnswers {
			return sent, came + fmt.Sprintf("; and %d more", len(t.res.Attempts)-i)
		}
		came += fmt.Sprintf("; from %s: %s", r.Src, r)
	}
	return sent, came
}

// maxAnswers are told of the attempts that decided a failure; attempts.txt has all.
const maxAnswers = 3

// frontWord is a kind of address, whichever endpoints there are.
func frontWord(front cell.Value) string {
	word, _, _ := strings.Cut(string(front), ",")
	return word
}

// frontOf is a target with what it is an address of.
func (s *Spec) frontOf(t Target) string {
	for _, v := range s.services {
		if front, met := v.met[t]; met {
			return fmt.Sprintf("%s (%s of Service %s)", t, frontWord(front), v.obj.Name)
		}
	}
	return t.String()
}
