package iptables

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/plumbline/plumbline/dataplane/commits"
)

// expected is what the kernel should hold, as sums, between two Applies.
type expected struct {
	known   bool
	sums    [2]uint64 // by family
	written int       // counts the Applies
}

// sum adds up a hash of every chain and rule: that of a part of a model can be
// taken away from the sum, or added.
func (m model) sum() uint64 {
	var out uint64
	add := func(parts ...string) {
		h := fnv.New64a()
		for _, p := range parts {
			_, _ = h.Write([]byte(p))
			_, _ = h.Write([]byte{0})
		}
		out += h.Sum64()
	}
	for id, c := range m {
		if !id.builtin() {
			add(id.table, id.name)
		}
		for i, r := range c.rules {
			place := "any"
			if !id.bulk() {
				place = strconv.Itoa(i)
			}
			add(id.table, id.name, place, r.text)
		}
		for i, r := range c.last {
			add(id.table, id.name, "last", strconv.Itoa(i), r.text)
		}
	}
	return out
}

// expect sets what the kernel holds from now on; nil while it is being changed.
func (t *Target) expect(sums *[2]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.written++
	t.state.known = sums != nil
	if sums != nil {
		t.state.sums = *sums
	}
}

// expectMore sets it to what it was and a difference.
func (t *Target) expectMore(more [2]uint64) {
	sums := t.expectation().sums
	for i := range sums {
		sums[i] += more[i]
	}
	t.expect(&sums)
}

func (t *Target) expectation() expected {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// Poll reads our chains back at an interval and calls lost if they are not as the
// last Apply left them, or cannot be read. It blocks until ctx ends.
//
// The nft flavour is not read while nobody has changed nf_tables at all. Reading
// is dear (see Limits), so it is bounded to a tenth of the time, however short
// the interval.
func (t *Target) Poll(ctx context.Context, interval time.Duration, lost func()) error {
	var clean *uint32 // the generation of nf_tables that was found as it should be
	wait := interval
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		begin := time.Now()
		clean = t.look(ctx, clean, lost)
		wait = max(interval, 9*time.Since(begin))
	}
}

func (t *Target) look(ctx context.Context, clean *uint32, lost func()) *uint32 {
	tool, err := newTool(within(ctx), t.cfg.Flavour, t.cfg.NetNS)
	var now *uint32
	if err == nil && tool.flavour == NFT {
		var g uint32
		g, err = commits.Generation(t.cfg.NetNS)
		now = &g
	}
	if err == nil && now != nil && clean != nil && *now == *clean {
		return clean
	}
	was := unknown
	if err == nil {
		was, err = t.compare(ctx, tool)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.log.Error("own chains cannot be read", "err", err)
		lost()
	case was == changed:
		t.log.Warn("somebody has changed our chains")
		lost()
	case was == same:
		return now
	}
	return nil
}

// What a comparison shows. It is unknown when an Apply came between.
type finding int

const (
	unknown finding = iota
	same
	changed
)

func (t *Target) compare(ctx context.Context, tool *tool) (finding, error) {
	before := t.expectation()
	if !before.known {
		return unknown, nil
	}
	out := same
	for _, v6 := range tool.families {
		m, err := tool.read(within(ctx), v6)
		if err != nil {
			return unknown, err
		}
		if m.sum() != before.sums[number(v6)] {
			out = changed
		}
	}
	if t.expectation().written != before.written {
		return unknown, nil
	}
	return out, nil
}

// Check reads our chains back and tells whether they are as the last Apply left
// them, as far as that can be told: it says yes if an Apply came between.
func (t *Target) Check(ctx context.Context) (bool, error) {
	tool, err := newTool(within(ctx), t.cfg.Flavour, t.cfg.NetNS)
	if err != nil {
		return false, err
	}
	was, err := t.compare(ctx, tool)
	return err == nil && was != changed, err
}
