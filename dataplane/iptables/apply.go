package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Config is what a Target needs.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
	// Flavour is which iptables to use; empty is Auto.
	Flavour Flavour
	// Mark is the bit of the packet mark that asks for masquerading; 0 is
	// DefaultMark.
	Mark uint32
	// Fault is the contract suite's: called before every write and after it, its error is
	// that of a write that was not done, or whose word was lost. Nil in production.
	Fault func() error
}

// Target keeps our chains in one network namespace. Apply and Close are not safe
// for concurrent use; Poll may run beside them.
type Target struct {
	cfg Config       // const after New
	by  partSizes    // const after New
	log *slog.Logger // const after New

	tool *tool                                         // nil until needed
	ends func(do command, v6 bool, input string) error // tests: a restore that may end between sections

	lack error // why the kernel has no nat tables for IPv6, nil if it has

	without6 atomic.Bool // it has none, as of the last complete Apply

	// The rest is what the kernel holds while synced is true.
	synced bool
	node   plan.Node
	groups [2]map[plan.Key][]plan.Frontend // by family, as groupOf has them
	member map[plan.Key]plan.Key           // frontend -> group
	health map[uint16]int                  // Services by the port of their health check

	toldAffinity bool

	mu    sync.Mutex
	state expected // guarded by mu
}

// New makes a Target; nothing is run or changed before Apply.
func New(cfg Config) *Target {
	if cfg.Flavour == "" {
		cfg.Flavour = Auto
	}
	if cfg.Mark == 0 {
		cfg.Mark = DefaultMark
	}
	return &Target{cfg: cfg, log: cfg.Logger, by: partSizes{largeScript, batchFrontends, batchLines}}
}

// Apply brings the kernel from old to new. Both may be partial plans of the same
// Services; what is written is their difference. A nil old stands for a state of
// the kernel that is not known (start, or a failed Apply): then new must be
// complete, our chains are read back once, and only differences are written.
// Nothing is flushed, and connections keep their rules throughout.
//
// After an error the state is unknown again; the next Apply must have a nil old. A family that fails
// does not keep the other from what is new.
// An error that wraps *plan.Refused is none: all but its frontends are as asked.
func (t *Target) Apply(ctx context.Context, old, new *plan.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	if old != nil && !t.synced {
		return errors.New("apply a difference: the state of the chains is not known")
	}
	t.expect(nil)
	refused := map[plan.Key]error{}
	var err error
	if old == nil {
		err = t.takeOver(ctx, new, refused)
	} else {
		err = t.change(ctx, plan.Diff(old, new), refused)
	}
	t.synced = err == nil
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return fmt.Errorf("apply iptables rules: %w", &plan.Refused{Frontends: refused})
	}
	return nil
}

// Close ends nothing: the rules stay.
func (t *Target) Close() error { return nil }

func (t *Target) prepare(ctx context.Context) error {
	if t.tool != nil {
		return nil
	}
	if m := t.cfg.Mark; m&(m-1) != 0 {
		return fmt.Errorf("use packet mark 0x%x: it must be a single bit", m)
	}
	tool, err := newTool(within(ctx), t.cfg.Flavour, t.cfg.NetNS)
	if err != nil {
		return err
	}
	if tool.why != "" {
		t.log.Info("flavour of iptables found", "flavour", tool.flavour, "that", tool.why)
	}
	if len(tool.families) == 1 {
		t.log.Warn("the network namespace has no IPv6: its frontends are refused")
	}
	t.tool = tool
	return nil
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// takeOver makes our chains those of the plan, whatever they hold.
func (t *Target) takeOver(ctx context.Context, p *plan.Plan, refused map[plan.Key]error) error {
	index := plan.Index(p)
	t.member = map[plan.Key]plan.Key{}
	t.node = p.Node
	lacked := t.lack != nil
	t.lack = nil // it may be there by now
	for k := range index {
		t.refuseIPv6(k, refused)
	}
	t.health = map[uint16]int{}
	for _, port := range plan.HealthPorts(p) {
		t.health[port]++
	}
	ports := slices.Sorted(maps.Keys(t.health))
	var sums [2]uint64
	var errs []error
	for _, v6 := range t.tool.families {
		groups, err := t.takeOverFamily(ctx, p.Node, v6, groups(index, v6), ports, plan.First(p), refused)
		if v6 && lacksTables(err) {
			t.setLack(err, lacked)
			for k := range index {
				t.refuseIPv6(k, refused)
			}
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue // the other family is served all the same
		}
		sums[number(v6)] = render(v6, p.Node, t.cfg.Mark, groups, ports).sum()
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	t.expect(&sums)
	t.without6.Store(t.lack != nil)
	return nil
}

// WithoutIPv6 tells whether the kernel has no iptables for it: only IPv4 is served. It is safe to
// call at any time.
func (t *Target) WithoutIPv6() bool { return t.without6.Load() }

func (t *Target) takeOverFamily(ctx context.Context, node plan.Node, v6 bool, groups map[plan.Key][]plan.Frontend, ports []uint16, first map[plan.Key]bool, refused map[plan.Key]error) (map[plan.Key][]plan.Frontend, error) {
	t.groups[number(v6)] = map[plan.Key][]plan.Frontend{}
	have, err := t.tool.read(within(ctx), v6)
	if err != nil {
		return nil, fmt.Errorf("read back iptables: %w", err)
	}
	c := &change{Target: t, v6: v6, have: have, node: node, groups: groups, health: ports, refused: refused, first: first}
	if err := c.run(ctx); err != nil {
		return nil, fmt.Errorf("set up iptables: %w", err)
	}
	t.groups[number(v6)] = c.groups
	t.tellAffinity(c.groups)
	for group, fs := range c.groups {
		t.note(group, fs)
	}
	return c.groups, nil
}

// setLack does without IPv6 until the next complete Apply: IPv4 is served all the same. What came
// in of the family before its nat tables were missed goes, or it would only refuse.
func (t *Target) setLack(err error, told bool) {
	if !told {
		t.log.Warn("this kernel has no iptables for IPv6: only IPv4 Services are served", "err", err)
	}
	t.lack = err
	if err := t.tool.clean(true); err != nil && !lacksTables(err) {
		t.log.Warn("chains for IPv6 are left that nothing leads to", "err", err)
	}
}

// families are those that are served.
func (t *Target) families() []bool {
	if t.lack != nil {
		return []bool{false}
	}
	return t.tool.families
}

// refuseIPv6 refuses a frontend of IPv6 where there is none.
func (t *Target) refuseIPv6(k plan.Key, refused map[plan.Key]error) {
	switch {
	case !k.IPv6:
	case t.lack != nil:
		refused[k] = fmt.Errorf("no iptables for IPv6: %w", t.lack)
	case !slices.Contains(t.tool.families, true):
		refused[k] = fmt.Errorf("the network namespace has no IPv6: %w", errors.ErrUnsupported)
	}
}

func (t *Target) note(group plan.Key, fs []plan.Frontend) {
	for _, f := range fs {
		t.member[f.Key] = group
	}
}

// change writes the difference that some frontends, or the node, make.
func (t *Target) change(ctx context.Context, d plan.Changes, refused map[plan.Key]error) error {
	node := t.node
	if d.Node != nil {
		node = *d.Node
	}
	for _, f := range d.Set {
		t.refuseIPv6(f.Key, refused)
	}
	closed, opened := t.ports(d)
	var sums [2]uint64
	var errs []error
	for _, v6 := range t.families() {
		old, new := t.regroup(d, v6)
		was, had := render(v6, t.node, t.cfg.Mark, old, closed), render(v6, t.node, t.cfg.Mark, old, closed)
		c := &change{Target: t, v6: v6, have: had, node: node, groups: new, health: opened, refused: refused}
		if err := c.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("change iptables: %w", err))
			continue // as above
		}
		for group, fs := range old {
			for _, f := range fs {
				delete(t.member, f.Key)
			}
			delete(t.groups[number(v6)], group)
		}
		t.tellAffinity(c.groups)
		for group, fs := range c.groups {
			t.groups[number(v6)][group] = fs
			t.note(group, fs)
		}
		sums[number(v6)] = render(v6, node, t.cfg.Mark, c.groups, opened).sum() - was.sum()
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	t.node = node
	t.expectMore(sums)
	return nil
}

// ports counts the health checks, and returns the ports that no Service has any more and those
// that none had.
func (t *Target) ports(d plan.Changes) (closed, opened []uint16) {
	before := maps.Clone(t.health)
	for _, p := range d.Opened {
		t.health[p]++
	}
	for _, p := range d.Closed {
		t.health[p]--
	}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(d.Opened, d.Closed)))) {
		switch {
		case before[p] > 0 && t.health[p] <= 0:
			closed = append(closed, p)
			delete(t.health, p)
		case before[p] <= 0 && t.health[p] > 0:
			opened = append(opened, p)
		}
	}
	return closed, opened
}

// regroup are the groups that a change touches, before and after. The node is in
// the rules of all.
func (t *Target) regroup(d plan.Changes, v6 bool) (old, new map[plan.Key][]plan.Frontend) {
	all := t.groups[number(v6)]
	touched := map[plan.Key]bool{}
	gone := map[plan.Key]bool{}
	for _, k := range d.Gone {
		gone[k] = true
		touched[t.member[k]] = true
	}
	for _, f := range d.Set {
		gone[f.Key] = true // from where it was
		touched[t.member[f.Key]], touched[groupOf(*f)] = true, true
	}
	if d.Node != nil {
		for group := range all {
			touched[group] = true
		}
	}
	old, new = map[plan.Key][]plan.Frontend{}, map[plan.Key][]plan.Frontend{}
	for group := range touched {
		fs, known := all[group]
		if !known {
			continue
		}
		old[group] = fs
		if kept := slices.DeleteFunc(slices.Clone(fs), func(f plan.Frontend) bool { return gone[f.Key] }); len(kept) > 0 {
			new[group] = kept
		}
	}
	for _, f := range d.Set {
		if f.Key.IPv6 == v6 {
			new[groupOf(*f)] = append(new[groupOf(*f)], *f)
		}
	}
	for group := range maps.Keys(new) {
		sortFrontends(new[group])
	}
	return old, new
}
