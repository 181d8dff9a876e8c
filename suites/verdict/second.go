package verdict

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// second is the loss that whole requests from the load balancer's own address explain, as
// Reconstruction is that of handshakes from the observer; nil: there were none.
func second(out []outcome, events []record.Event, s Settings) *Reconstruction {
	var as []record.Event
	asked := false
	for _, e := range events {
		switch e.Kind {
		case record.KindNodePort:
			continue
		case record.KindServed:
			asked, e.Kind = true, record.KindNodePort
		}
		as = append(as, e)
	}
	if !asked {
		return nil
	}
	r := reconstruct(out, timeline.New(as), s)
	return &r
}

// disagreement says what the two observations explain of a loss that one of them does not; empty:
// both explain it, or there was one observation only.
func disagreement(first Reconstruction, second *Reconstruction) string {
	if second == nil || !first.Possible || !second.Possible || first.Within && second.Within {
		return ""
	}
	if first == *second && first.NoServer > 0 && first.DeadNode == 0 {
		return "" // neither has anything to say of nodes
	}
	what := "which explains more is nearer to it"
	switch {
	case first.Within:
		what = "the balancer's requests met what others did not"
	case second.Within && first.Lost+first.Slow > second.Lost+second.Slow:
		what = "the observer alone met it"
	case second.Within:
		what = "it met whole requests or the balancer's address, and no handshake of others"
	}
	return fmt.Sprintf("handshakes of the observer explain %.0f lost and %.0f slow (%.0f unexplained), whole requests from the balancer's address %.0f and %.0f (%.0f): %s",
		first.Lost, first.Slow, first.Unexplained, second.Lost, second.Slow, second.Unexplained, what)
}

// unwell are pods that did not answer their own node for a while, past all rules, though they lived
// and nobody had deleted them.
func unwell(events []record.Event) []string {
	const least = int64(200 * time.Millisecond) // two polls: less is known of nobody
	type state struct {
		answered, deleted bool
		since             int64 // it does not answer; 0: it does
		silent            int64 // in all
	}
	pods := map[string]*state{}
	end := int64(0)
	for _, e := range events {
		at := timeline.ChangedAt(e)
		end = max(end, at)
		p := pods[e.Pod]
		if p == nil && e.Kind == record.KindDirect {
			p = &state{}
			pods[e.Pod] = p
		}
		direct := e.Kind == record.KindDirect
		switch {
		case p == nil || p.deleted:
		case e.Kind == record.KindPod && (e.State == timeline.Deleting || e.State == timeline.Gone), direct && e.State == timeline.Forwards, direct && e.State == "":
			if p.since != 0 {
				p.silent += max(0, at-p.since)
			}
			p.since, p.answered, p.deleted = 0, direct && e.State == timeline.Forwards || p.answered, !direct
		case direct && p.answered && p.since == 0:
			p.since = at
		}
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		p := pods[name]
		if p.since != 0 {
			p.silent += end - p.since
		}
		if p.silent >= least {
			said = append(said, fmt.Sprintf("pod %s did not answer its own node, past the Service, for %.1f s", name, seconds(p.silent)))
		}
	}
	return said
}

// oneSource says so if all that was lost or slow is of one client address of several, by more than
// chance; empty: it is not.
func oneSource(out []outcome) string {
	const few = 5 // of four clients one has five in a row by chance once in 250 times
	clients, hit := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	n := 0
	for _, o := range out {
		if !o.Src.Addr().IsValid() {
			continue
		}
		clients[o.Src.Addr()] = true
		if o.touched() {
			hit[o.Src.Addr()] = true
			n++
		}
	}
	if len(clients) < 2 || len(hit) != 1 || n < few {
		return ""
	}
	for a := range hit {
		return fmt.Sprintf("all %d that were lost or slow are of client %s, one of %d", n, a, len(clients))
	}
	return ""
}
