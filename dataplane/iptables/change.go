package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// change brings one family's chains to what some frontends ask for.
type change struct {
	*Target
	v6     bool
	have   model // what is there, as far as it is the change's business
	node   plan.Node
	groups map[plan.Key][]plan.Frontend // what is asked for
	health []uint16                     // also
	// refused collects what the kernel did not take; it leaves groups.
	refused map[plan.Key]error
	first   map[plan.Key]bool // frontends that go before others where not all go at once
}

// One transaction of the nft flavour costs the square of what is in it: 2 000
// Services of 10 endpoints take 3 s by a hundred, 10 s by five hundred, and a minute
// at once. The legacy flavour replaces the whole table with every transaction:
// there, one is best.
const (
	largeScript    = 4000 // lines; beyond, it is written in parts
	batchFrontends = 100
	batchLines     = 2000
)

// partSizes are these, or less in tests.
type partSizes struct{ large, frontends, lines int }

func (t *tool) large(s *script, lines int) bool { return t.flavour == NFT && len(s.lines()) > lines }

// run writes the difference. A large one is written a few frontends at a time, each
// of them as a whole, and what is to go goes last.
func (c *change) run(ctx context.Context) error {
	for {
		before := len(c.refused)
		s := diff(c.have, render(c.v6, c.node, c.cfg.Mark, c.groups, c.health))
		var err error
		if c.tool.large(s, c.by.large) {
			err = c.inTurn(ctx, s, c.apportion(s, c.by.frontends))
		} else {
			err = c.write(ctx, s)
		}
		if err != nil {
			return err
		}
		if len(c.refused) > before {
			continue // what was in a transaction with the refused is still to be done
		}
		if c.tool.large(s, c.by.large) {
			for _, part := range s.removals(c.by.lines) {
				if err := c.write(ctx, part); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// inTurn writes what a script adds: what all share by itself, so that it does not
// fail with a frontend, then so many frontends at a time.
func (c *change) inTurn(ctx context.Context, s *script, batches []map[plan.Key]bool) error {
	for _, keys := range append([]map[plan.Key]bool{{{}: true}}, batches...) {
		if err := c.write(ctx, s.additions(func(k plan.Key) bool { return keys[k] })); err != nil {
			return err
		}
	}
	return nil
}

// apportion puts the frontends that a script adds something for into batches;
// those of a group stay together, and those that are wanted most are in the first.
func (c *change) apportion(s *script, limit int) []map[plan.Key]bool {
	groups := map[plan.Key]plan.Key{}
	for group, fs := range c.groups {
		for _, f := range fs {
			groups[f.Key] = group
		}
	}
	var out []map[plan.Key]bool
	at := map[plan.Key]int{}
	adds := s.adds()
	slices.SortStableFunc(adds, func(a, b plan.Key) int { return number(c.first[b]) - number(c.first[a]) })
	for _, k := range adds {
		i, known := at[groups[k]]
		if !known {
			i = len(out) - 1
			if i < 0 || len(out[i]) >= limit {
				out = append(out, map[plan.Key]bool{})
				i++
			}
			at[groups[k]] = i
		}
		out[i][k] = true
	}
	return out
}

// write runs one restore. If the kernel refuses some frontends, they are set
// aside and c.refused grows; what was not written is still to be done then.
func (c *change) write(ctx context.Context, s *script) error {
	lines := s.lines()
	if len(lines) == 0 {
		return nil
	}
	if err := c.mayFail(); err != nil {
		return err
	}
	restore := c.tool.restore
	if c.ends != nil {
		restore = c.ends
	}
	err := restore(within(ctx), c.v6, text(lines))
	if err == nil {
		for _, p := range s.parts() {
			c.have.replay(p)
		}
		return c.mayFail()
	}
	return c.setAside(ctx, s, lines, err)
}

func (t *Target) mayFail() error {
	if t.cfg.Fault == nil {
		return nil
	}
	return t.cfg.Fault()
}

// setAside finds out whom an error is about: by the line it names or, where the
// kernel names none, by writing one half and then the other.
func (c *change) setAside(ctx context.Context, s *script, lines []line, err error) error {
	var e *ExecError
	if errors.As(err, &e) {
		if at := lineNumbers(e.Stderr); len(at) > 0 {
			for _, p := range s.committed(at[0]) {
				c.have.replay(p)
			}
		}
	}
	if bad := culprits(err, lines); len(bad) > 0 {
		c.refuse(bad)
		return nil
	}
	adds := s.adds()
	if !atCommit(err, lines) || len(adds) == 0 {
		return fmt.Errorf("write %s chains: %w", family(c.v6), err)
	}
	halves := c.apportion(s, (len(adds)+1)/2)
	if len(halves) == 1 {
		bad := map[plan.Key]error{}
		for k := range halves[0] {
			bad[k] = err
		}
		c.refuse(bad)
		return nil
	}
	return c.inTurn(ctx, s, halves)
}

func (c *change) refuse(bad map[plan.Key]error) {
	for group, fs := range c.groups {
		var kept []plan.Frontend
		for _, f := range fs {
			if err := bad[f.Key]; err != nil {
				err = c.tool.whyRefused(f, err)
				c.refused[f.Key] = err
				c.log.Warn("the kernel refuses a frontend", "frontend", f.Key.String(), "err", err)
				continue
			}
			kept = append(kept, f)
		}
		c.groups[group] = kept
		if len(kept) == 0 {
			delete(c.groups, group)
		}
	}
}
