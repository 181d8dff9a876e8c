package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

// story is what happened to a row, in sentences; each may be empty.
type story struct {
	What  string // what was lost of how much, and what may be
	Where string // the longest stretch of it
	Who   string // has to look at it
	Why   string // what happened there
	Sure  string // how sure that is, and what the verdict rests on beside
}

// says is the whole story.
func (r Row) says(sc Scenario) string {
	st := r.story(sc)
	return render.Joined(" ", render.Text(r.Name)+" "+st.What, st.Where, render.Joined(": ", st.Who, st.Why), st.Sure)
}

func (r Row) story(sc Scenario) story {
	word := r.Judge(sc)
	switch {
	case word == Unsupported:
		return story{What: "was not run: " + render.Line(r.Unsupported) + "."}
	case len(r.Rollouts) == 0 && word != Fail:
		return story{What: "could not be judged" + render.Prefixed(": ", r.whyInvalid()) + "." + r.seen(sc)}
	}
	who, why := r.whose(sc)
	return story{What: r.did(sc), Where: r.where(), Who: who, Why: why, Sure: render.Joined(" ", r.sure(), r.besides(sc, word))}
}

// did is what a row lost and answered late, and what it may have.
func (r Row) did(sc Scenario) string {
	text := fmt.Sprintf("lost %d of %d connections", r.Lost(), r.Sent())
	switch n := len(r.Rollouts); {
	case n == 0:
		text = "has no rollout that counts"
	case r.Lost() == 0:
		text = fmt.Sprintf("lost none of %d connections", r.Sent())
	}
	if n := len(r.Rollouts); n > 1 {
		text += fmt.Sprintf(" in %d rollouts", n)
	}
	if n := r.ownDoing(); n > 0 {
		text += fmt.Sprintf(", %d of them the scenario's own doing", n)
	}
	if n := r.lostInvalid(); n > 0 {
		text += fmt.Sprintf(", and %d at sound moments of rollouts that do not count otherwise", n)
	}
	if r.promise(sc) != nil && r.counted() > 0 {
		text += fmt.Sprintf(" (allowed: %d)", sc.Settings.Budget)
	}
	if slow := r.Slow(); slow > 0 {
		text += fmt.Sprintf(", and answered %d late", slow)
	}
	if slow, sent, is := r.slowBeyond(); is && r.promise(sc) != nil {
		text += fmt.Sprintf("; %d of %d in one rollout for what may be the dataplane's doing, where 1 in %.0f may be", slow, sent, 1/SlowPart)
	}
	return text + "."
}

// sure is what was expected beforehand, and what the records explain afterwards.
func (r Row) sure() string {
	var parts []string
	if p := r.Predicted; p != nil && (p.Mean > 0 || r.Lost() > 0) {
		in := "inside"
		switch lost := float64(r.Lost()); {
		case p.Rollouts != len(r.Rollouts):
			in = "of another number of rollouts"
		case r.excess() || lost < p.Band999.Low:
			in = "outside"
		case lost > p.Band999.High:
			in = "above it, and not above what checks that are in step allow"
		}
		parts = append(parts, fmt.Sprintf("The model expected %s (99.9 %% band %s-%s): %s.", num(p.Mean), num(p.Band999.Low), num(p.Band999.High), in))
	}
	if lost, _, unexplained, ok, within := r.Reconstructed(); ok && r.Lost() > 0 {
		text := fmt.Sprintf("The recorded states explain %s", num(lost))
		if !within {
			text += fmt.Sprintf(", and leave %s unexplained", num(unexplained))
		}
		parts = append(parts, text+".")
	}
	return strings.Join(parts, " ")
}

// where is the longest stretch of losses at one place.
func (r Row) where() string {
	var worst verdict.Window
	number := 0
	for _, v := range r.Rollouts {
		for _, w := range v.NodeWindows {
			if w.Lost > 0 && cmp.Or(cmp.Compare(w.Inner(), worst.Inner()), cmp.Compare(w.Lost, worst.Lost)) > 0 {
				worst, number = w, v.Number
			}
		}
	}
	if worst.Lost == 0 {
		return ""
	}
	in := ""
	if len(r.Rollouts) > 1 {
		in = fmt.Sprintf(", in rollout %d", number)
	}
	return fmt.Sprintf("The longest stretch: %d %s%s, from %s to %s.", worst.Lost, placeOf(worst), in, at(worst.Start), at(worst.End))
}

// placeOf is where the losses of a window were met.
func placeOf(w verdict.Window) string {
	if w.Node != "" {
		return "on " + render.Text(w.Node)
	}
	balancer, none := false, len(w.Causes) > 0
	for c := range w.Causes {
		balancer = balancer || c.Hop() == verdict.HopBalancer
		none = none && (c == verdict.CauseNoServer || c == verdict.CauseCheckFailed)
	}
	switch {
	case none:
		return "with no server UP"
	case balancer:
		return "at the load balancer"
	}
	return "at a node that is not known"
}

// whose is the most frequent cause of losses that count, or else of slow answers that do.
func (r Row) whose(sc Scenario) (who, why string) {
	counts, all, what := r.blamed(sc)
	switch {
	case len(counts) == 0:
		return "", ""
	case what == losses && r.counted() == 0 && r.ownDoing() > 0:
		return "Nobody", "it is what the scenario does [" + counts[0].Name + "]."
	}
	m := meaningOf(verdict.Cause(counts[0].Name))
	who = capital(m.Who)
	if counts[0].N < all {
		who += fmt.Sprintf(" (%d of the %d %s)", counts[0].N, all, what)
	}
	return who, fmt.Sprintf("%s%s [%s].", m.What, render.Prefixed("; ", m.Why), counts[0].Name)
}

// losses is what a sentence is about where it is not late answers.
const losses = "losses"

// blamed are the causes that a sentence is to be about, of how many losses or late answers.
func (r Row) blamed(sc Scenario) (counts []Count, all int, what string) {
	promise := r.promise(sc)
	list := r.Rollouts
	if r.Lost() == 0 && r.lostInvalid() > 0 {
		list = r.Invalid
	}
	counts, what = causesIn(list, func(v verdict.Rollout) map[verdict.Cause]int { return v.Causes }), losses
	if promise != nil && r.counted() > 0 { // what is the scenario's own doing does not count
		counts = causesIn(list, func(v verdict.Rollout) map[verdict.Cause]int {
			left := maps.Clone(v.Causes)
			for c, n := range v.Excepted.Causes {
				left[c] -= n
			}
			return left
		})
	}
	if _, _, is := r.slowBeyond(); promise != nil && is && !r.lostBeyond(sc) {
		counts, what = causesIn(slices.Concat(r.Rollouts, r.Invalid), func(v verdict.Rollout) map[verdict.Cause]int { return v.SlowCauses }), "late answers"
		counts = slices.DeleteFunc(counts, func(c Count) bool { return !verdict.MayBeDataplane(verdict.Cause(c.Name)) })
	}
	for _, c := range counts {
		all += c.N
	}
	return counts, all, what
}

// besides is what the verdict rests on beside the figures.
func (r Row) besides(sc Scenario, word Word) string {
	var parts []string
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(word == Blind, "No phase of the checks loses that few: the harness does not see what it should.")
	add(word == Excess, "No phase of the checks loses that many: something beside terminating endpoints was lost.")
	add(r.Error != "", "It was not run to its end: %s.", render.Line(r.Error))
	add(r.unpredicted(sc), "%s.", capital(noPrediction))
	add(len(r.Beside) > 0, "Another Service proxy ran beside it, whose work this may be: %s.", render.Line(strings.Join(r.Beside, "; ")))
	if len(r.Rollouts) < r.Wanted && r.Error == "" {
		add(true, "%d of %s could be judged%s.%s", len(r.Rollouts), render.Plural(r.Wanted, "rollout"), render.Prefixed(": ", r.whyInvalid()), r.seen(sc))
	}
	return strings.Join(parts, " ")
}

// whyInvalid is why the row broke off, or the first rollout that does not count does not.
func (r Row) whyInvalid() string {
	if r.Error != "" {
		return render.Line(r.Error)
	}
	for _, v := range r.Invalid {
		if len(v.Reasons) > 0 {
			return render.Line(v.Reasons[0])
		}
	}
	return ""
}

// seen is what was lost in rollouts that do not count; of a row that something is promised of, at
// moments that do not count either.
func (r Row) seen(sc Scenario) string {
	lost, sent := 0, 0
	for _, v := range r.Invalid {
		lost, sent = lost+v.Lost, sent+v.Sent
		if r.promise(sc) != nil {
			lost -= v.LostSound
		}
	}
	if lost == 0 {
		return ""
	}
	return fmt.Sprintf(" Seen and not counted: %d of %d lost.", lost, sent)
}

// cause is the most frequent one of a row, for a table; how many others there are beside it.
func (r Row) cause(sc Scenario) string {
	counts, _, _ := r.blamed(sc)
	if len(counts) == 0 {
		counts = r.SlowCauses()
	}
	switch len(counts) {
	case 0:
		return "-"
	case 1:
		return counts[0].Name
	}
	return fmt.Sprintf("%s +%d", counts[0].Name, len(counts)-1)
}
