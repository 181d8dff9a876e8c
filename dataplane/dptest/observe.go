//go:build linux

package dptest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// least and most bound the connections made for n destinations, if all are as
// likely. One that should be there is missed in 25n tries with a chance of about
// n/e^25; one more that should not be there in 14(n+1) with about e^-14.
func least(n int) int { return 14 * (n + 1) }
func most(n int) int  { return max(least(n), 25*n) }

// few is how often the same answer must come where nothing is left to chance.
const few = 3

// Observe makes attempts until every destination of the row has been seen and one more
// would have been, and returns what was seen in the row's form. A destination
// that is seen both with and without the node's address appears twice.
func (n *Net) Observe(ctx context.Context, r Row) (Row, error) {
	got := Row{Line: r.Line, From: r.From, Proto: r.Proto, To: r.To, Sticky: r.Sticky, Same: r.Same, Soft: r.Soft}
	err := n.attempts(ctx, r, func(attempt func() (answer, error)) error {
		for i := 0; !r.seen(got, i); i++ {
			a, err := attempt()
			if err != nil {
				return err
			}
			if err := n.note(&got, r, a, i == 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return got, fmt.Errorf("%s: %w", r.Line, err)
	}
	return got, nil
}

// seen tells whether so many tries are enough. A silence is long, and one is.
func (r Row) seen(got Row, tries int) bool {
	switch n := len(r.Dests); {
	case tries == 0:
		return false
	case got.Action == plan.Drop:
		return true
	case got.Action != plan.Forward || n == 0:
		return tries >= few
	case r.Sticky || slices.Equal(got.Dests, r.Dests):
		return tries >= least(n)
	default:
		return tries >= most(n)
	}
}

// note adds an answer to what was seen.
func (n *Net) note(got *Row, r Row, a answer, first bool) error {
	action := a.action
	if action == plan.Forward && a.server == r.To {
		action = "" // it arrived where it was sent to
	}
	if r.Soft && a.soft {
		action = plan.Reject
	}
	if !first && action != got.Action {
		if action == plan.Drop {
			return fmt.Errorf("first %q, then %q (%s; conntrack of the node: %s)", got.Action, action, a.kernel, n.lost())
		}
		return fmt.Errorf("first %q, then %q", got.Action, action)
	}
	got.Action = action
	if a.action != plan.Forward {
		return nil
	}
	if a.client != r.From.Addr(r.To.Addr()) && !n.node[a.client] {
		return fmt.Errorf("%s saw the source %s, which is neither the client's nor the node's", a.server, a.client)
	}
	if action == plan.Forward {
		if d := n.dest(a, r); !slices.Contains(got.Dests, d) {
			got.Dests = append(got.Dests, d)
			sortDests(got.Dests)
		}
	}
	return nil
}

// lost is what the node's conntrack says of packets it could not take, in all
// processors, since there is the node.
func (n *Net) lost() string {
	var text []byte
	err := n.Node.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/stat/nf_conntrack")
		return err
	})
	if err != nil {
		return err.Error()
	}
	sums := map[string]uint64{}
	var names []string
	for line := range strings.Lines(string(text)) {
		if names == nil {
			names = strings.Fields(line)
			continue
		}
		for i, field := range strings.Fields(line) {
			count, err := strconv.ParseUint(field, 16, 64)
			if err != nil || i >= len(names) {
				return "unknown: " + line
			}
			sums[names[i]] += count
		}
	}
	return fmt.Sprintf("insert_failed %d, drop %d, early_drop %d", sums["insert_failed"], sums["drop"], sums["early_drop"])
}

// dest tells whether the source was replaced. From the node itself that cannot
// be seen, so what the row says holds.
func (n *Net) dest(a answer, r Row) Dest {
	d := Dest{At: a.server, Masked: n.node[a.client]}
	if r.From == Self && d.Masked {
		for _, want := range r.Dests {
			if want.At == d.At {
				d.Masked = want.Masked
			}
		}
	}
	return d
}

// Agrees tells whether what was observed is what the row says.
func (r Row) Agrees(got Row) bool {
	if r.Sticky && got.Action == plan.Forward {
		return len(got.Dests) == 1 && slices.Contains(r.Dests, got.Dests[0])
	}
	return r.Action == got.Action && slices.Equal(r.Dests, got.Dests)
}

// Memory is where each source with affinity was last seen to go. The zero value
// is an empty one.
type Memory struct{ at map[remembered]netip.AddrPort }

type remembered struct {
	source netip.Addr
	group  plan.Key
	to     netip.Addr // of packets of the node, whose source depends on it
}

// recall compares an observation with the memory and keeps it.
func (m *Memory) recall(r, got Row, group plan.Key) error {
	key := remembered{source: r.From.Addr(r.To.Addr()), group: group}
	if r.From == Self {
		key.to = r.To.Addr()
	}
	was, known := m.at[key]
	usable := slices.ContainsFunc(r.Dests, func(d Dest) bool { return d.At == was })
	now := got.Dests[0].At
	if m.at == nil {
		m.at = map[remembered]netip.AddrPort{}
	}
	m.at[key] = now
	switch {
	case r.Same && !known:
		return fmt.Errorf("%s: no earlier packet of this source to compare with", r.Line)
	case r.Same && usable && now != was:
		return fmt.Errorf("%s: went to %s, and to %s before", r.Line, now, was)
	}
	return nil
}

// together is how many rows are under way at a time.
const together = 8

// Check sends the packets of some rows, whose plan is p, and returns every
// difference. Rows of frontends with affinity go one after the other, in their
// order: the memory is part of what is observed. All others go at once.
func (n *Net) Check(ctx context.Context, p *plan.Plan, rows []Row, m *Memory) error {
	servers, err := n.Serve(ctx, rows)
	if err != nil {
		return err
	}
	defer servers.Close()
	resolver := plan.NewResolver(p)
	errs := make([]error, len(rows))
	var running sync.WaitGroup
	slots := make(chan struct{}, together)
	inOrder := []int{}
	for i, r := range rows {
		if resolver.Resolve(r.Packet()).Affinity > 0 {
			inOrder = append(inOrder, i)
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			_, errs[i] = n.compare(ctx, r)
		})
	}
	for _, i := range inOrder {
		var got Row
		if got, errs[i] = n.compare(ctx, rows[i]); errs[i] == nil && len(got.Dests) == 1 {
			errs[i] = m.recall(rows[i], got, resolver.Resolve(rows[i].Packet()).Group)
		}
	}
	running.Wait()
	return errors.Join(errs...)
}

func (n *Net) compare(ctx context.Context, r Row) (Row, error) {
	got, err := n.Observe(ctx, r)
	if err == nil && !r.Agrees(got) {
		err = fmt.Errorf("%s: the kernel did %s", r.Line, got.Outcome())
	}
	return got, err
}

// spreaders are the clients of Spread: one that waits for its answer leaves its processor to others.
const spreaders = 8

// Spread counts where count connections of a row go.
func (n *Net) Spread(ctx context.Context, r Row, count int) (map[netip.AddrPort]int, error) {
	servers, err := n.Serve(ctx, []Row{r})
	if err != nil {
		return nil, err
	}
	defer servers.Close()
	var mu sync.Mutex
	out, errs := map[netip.AddrPort]int{}, make([]error, spreaders)
	var running sync.WaitGroup
	for i := range spreaders {
		running.Go(func() {
			errs[i] = n.attempts(ctx, r, func(attempt func() (answer, error)) error {
				for range (count + i) / spreaders { // together count
					a, err := attempt()
					if err != nil {
						return fmt.Errorf("%s: %w", r.Line, err)
					}
					mu.Lock()
					out[a.server]++
					mu.Unlock()
				}
				return nil
			})
		})
	}
	running.Wait()
	return out, errors.Join(errs...)
}

// Visits serves some rows while f runs, which is given what makes one connection of
// a row and tells where it led.
func (n *Net) Visits(ctx context.Context, rows []Row, f func(visit func(Row) (netip.AddrPort, error)) error) error {
	servers, err := n.Serve(ctx, rows)
	if err != nil {
		return err
	}
	defer servers.Close()
	return f(func(r Row) (netip.AddrPort, error) {
		var a answer
		err := n.attempts(ctx, r, func(attempt func() (answer, error)) (err error) {
			a, err = attempt()
			return err
		})
		if err == nil && a.action != plan.Forward {
			err = fmt.Errorf("the kernel did %s", a.action)
		}
		if err != nil {
			return a.server, fmt.Errorf("%s: %w", r.Line, err)
		}
		return a.server, nil
	})
}
