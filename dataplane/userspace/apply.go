package userspace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Config is what a Target needs.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
	// StateDir is where a process notes what it would lose, for its successor to
	// tell: a directory that outlives it, such as /run/plumbline. Empty: nowhere.
	StateDir string
	// Drain is how long Close leaves connections to end by themselves. 0: no time,
	// they are cut at once.
	Drain time.Duration
	// UDPUnreplied and UDPReplied are how long an idle flow is remembered, before
	// and after its first answer. 0: 30 s and 120 s, as conntrack does.
	UDPUnreplied, UDPReplied time.Duration
	// Fault, of the contract suite, is asked before each write to the kernel and after it,
	// and its error is that of a write that was not done, or whose word was lost.
	Fault func() error
	// Others is asked at each complete Apply for what takes away the rules that other
	// backends left, nil if there are none. While it works new connections wait: those
	// rules would translate them on their way to the proxy. What is open goes on.
	Others func() (take func())
}

// Supports tells whether the ports of a protocol are served.
func Supports(p objects.Protocol) bool { return p == objects.TCP || p == objects.UDP }

// Target is a proxy with the rules that lead to it. Apply and Close are not safe
// for concurrent use; Stats is.
type Target struct {
	cfg      Config
	log      *slog.Logger
	proxy    *proxy   // nil before the first Apply and after Close
	families []family // that the namespace has
	synced   bool     // the kernel and the index hold the plan that was applied last
	hold     bool     // new connections and flows wait
	perWrite int      // const after New: perWrite, or less in tests
	stats    *counters
	writer   *lib.Conn     // nil before the first write and after an error
	port     atomic.Uint32 // of the socket that writes, or that wrote last
}

// New makes a Target; nothing is opened or changed before Apply.
func New(cfg Config) *Target {
	if cfg.UDPUnreplied == 0 {
		cfg.UDPUnreplied = unrepliedFor
	}
	if cfg.UDPReplied == 0 {
		cfg.UDPReplied = repliedFor
	}
	return &Target{cfg: cfg, log: cfg.Logger, stats: &counters{}, perWrite: perWrite}
}

// Apply brings proxy and kernel from old to new. Both may be partial plans of the
// same Services; the cost is that of their difference, and the kernel is only
// written to where a frontend comes, goes, or changes between forwarding,
// refusing and dropping. A nil old stands for a state of the kernel that is not
// known: then new must be complete, the sets are read back once, and only
// differences are written. Established connections stay as they are.
//
// The first Apply starts the proxy, which runs until Close.
//
// After an error the state is unknown again; the next Apply must have a nil old.
// An error that wraps *plan.Refused names the frontends that are not served; all
// others are.
func (t *Target) Apply(ctx context.Context, old, new *plan.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.proxy == nil {
		if err := t.start(ctx); err != nil {
			return fmt.Errorf("start proxy: %w", err)
		}
	}
	var err error
	switch {
	case old == nil:
		err = t.takeOver(new)
	case !t.synced:
		err = errors.New("apply a difference: the state of the sets is not known")
	default:
		err = t.change(plan.Diff(old, new))
	}
	t.synced = err == nil
	if err != nil {
		return err
	}
	return t.refused(new)
}

func (t *Target) start(ctx context.Context) (err error) {
	p, err := newProxy(t.cfg, t.stats)
	if err != nil {
		return err
	}
	tcp, udp, damaged := inherit(t.cfg.StateDir)
	for _, err := range damaged {
		t.log.Warn("what ended with a previous process is not known in full", "err", err)
	}
	if tcp+udp > 0 {
		t.log.Warn("connections of the previous process ended with it", "tcp", tcp, "udp", udp)
	}
	t.stats.lostConnections.Add(tcp)
	t.stats.lostFlows.Add(udp)
	if p.journal, err = openJournal(t.cfg.StateDir); err != nil {
		return err
	}
	if p.space, err = enter(t.cfg.NetNS); err != nil {
		return errors.Join(err, p.journal.Close(t.cfg.StateDir))
	}
	if t.families, err = p.start(ctx); err != nil {
		p.Close()
		return errors.Join(err, p.journal.Close(t.cfg.StateDir))
	}
	t.proxy = p
	return nil
}

// Stats is safe to call at any time.
func (t *Target) Stats() Stats { return t.stats.read() }

// Close ends the proxy and all its connections; Stats tells how many there were.
// The rules stay: until the next process takes over, new connections wait.
func (t *Target) Close() error {
	if t.proxy == nil {
		return nil
	}
	t.disconnect()
	t.proxy.Close()
	err := t.proxy.journal.Close(t.cfg.StateDir)
	t.proxy, t.synced = nil, false
	s := t.Stats()
	t.log.Info("proxy ended", "tcp_cut", s.CutConnections, "udp_cut", s.CutFlows)
	return err
}

// refused names the frontends of a plan that cannot be served.
func (t *Target) refused(p *plan.Plan) error {
	out := map[plan.Key]error{}
	for k := range plan.Index(p) {
		switch {
		case !Supports(k.Protocol) && !k.IsWildcard():
			out[k] = fmt.Errorf("the userspace proxy does not forward %s: %w", k.Protocol, errors.ErrUnsupported)
		case !t.serves(k.IPv6):
			out[k] = fmt.Errorf("the network namespace has no IPv6: %w", errors.ErrUnsupported)
		}
	}
	if len(out) > 0 {
		return &plan.Refused{Frontends: out}
	}
	return nil
}

func (t *Target) serves(v6 bool) bool {
	return slices.ContainsFunc(t.families, func(f family) bool { return f.v6 == v6 })
}

// change brings everything up to date in an order that never sends a connection
// to the proxy that this does not know of: what forwards is known to it before it
// is intercepted, and what does so no more is intercepted no more before it is
// forgotten.
func (t *Target) change(c plan.Changes) error {
	x, d := t.proxy.index, newDelta()
	if c.Node != nil {
		d.replace(nodeElements(x.getNode()), nodeElements(*c.Node))
	}
	for _, k := range c.Gone {
		d.replace(t.elements(x, k), nil)
	}
	for _, f := range c.Set {
		d.replace(t.elements(x, f.Key), frontendElements(*f))
	}
	return t.inOrder(c, func() error {
		if err := t.writeAll(d, false, false); err != nil {
			return fmt.Errorf("change nftables: %w", err)
		}
		return nil
	})
}

func (t *Target) elements(x *index, k plan.Key) []Element {
	f, ok := x.get(k)
	if !ok {
		return nil
	}
	return frontendElements(f)
}

func (t *Target) inOrder(c plan.Changes, write func() error) error {
	x, changed := t.proxy.index, map[plan.Key]bool{}
	var first, later []plan.Frontend
	for _, f := range c.Set {
		changed[f.Key] = true
		if f.Outside.Action == plan.Forward || f.Inside != nil && f.Inside.Action == plan.Forward {
			first = append(first, *f)
		} else {
			later = append(later, *f)
		}
	}
	for _, k := range c.Gone {
		changed[k] = true
	}
	x.update(c.Node, first, nil)
	if err := write(); err != nil {
		return err
	}
	x.update(nil, later, c.Gone)
	t.proxy.recheck(c.Node != nil, changed)
	return nil
}

// takeOver makes kernel and proxy those of the plan, whatever they hold. Tables of
// another version with the same sets of other types are replaced.
func (t *Target) takeOver(p *plan.Plan) error {
	if err := t.proxy.space.do(t.addRouting); err != nil {
		return fmt.Errorf("set up routing: %w", err)
	}
	present, err := read(t.cfg.NetNS)
	if err != nil {
		return fmt.Errorf("read back nftables: %w", err)
	}
	want := plan.Index(p)
	c := plan.Changes{Node: &p.Node, Set: slices.Collect(maps.Values(want))}
	for _, k := range t.proxy.index.keys() {
		if _, ok := want[k]; !ok {
			c.Gone = append(c.Gone, k)
		}
	}
	for i := range t.families {
		t.families[i].link = p.Node.LocalLink
	}
	elems, first, wanted := nodeElements(p.Node), map[string]bool{}, plan.First(p)
	for k, f := range want {
		of := frontendElements(*f)
		elems = append(elems, of...)
		for _, e := range of {
			if wanted[k] {
				first[e.owner()] = true
			}
		}
	}
	var others func()
	if t.cfg.Others != nil {
		others = t.cfg.Others()
	}
	t.hold = others != nil
	err = t.inOrder(c, func() error { return t.reconcile(present, elems, first) })
	if err != nil || !t.hold {
		return err
	}
	t.hold = false
	others()
	if err := t.write(newDelta(), true, false); err != nil {
		return fmt.Errorf("take connections in: %w", err)
	}
	return nil
}

func (t *Target) addRouting() error {
	for _, f := range t.families {
		if err := addRouting(f); err != nil {
			return err
		}
	}
	const sysctl = "/proc/sys/net/ipv4/conf/all/src_valid_mark"
	if b, err := os.ReadFile(sysctl); err == nil && strings.TrimSpace(string(b)) != "0" {
		t.log.Warn("the kernel takes packets with our mark for spoofed and drops them; it must be 0", "sysctl", sysctl)
	}
	return nil
}

func (t *Target) reconcile(present *state, want []Element, first map[string]bool) error {
	d := newDelta()
	d.first = first
	d.replace(slices.Collect(maps.Keys(present.elements)), want)
	err := t.writeAll(d, true, false)
	if err == nil {
		return nil
	}
	if missing := t.missing(); missing != nil {
		return fmt.Errorf("set up nftables: %w", missing)
	}
	if len(present.tables) > 0 && incompatible(t.write(newDelta(), true, false)) {
		t.log.Warn("tables of an incompatible version cannot be taken over, replacing them", "err", err)
		d = newDelta()
		d.first = first
		d.replace(nil, want)
		err = t.writeAll(d, true, true)
	}
	if err != nil {
		return fmt.Errorf("set up nftables: %w", err)
	}
	return nil
}

// incompatible tells whether the constant part by itself, which changes nothing
// in tables that are ours, was refused for what is there.
func incompatible(err error) bool {
	for _, kind := range []error{unix.EEXIST, unix.EINVAL, unix.EOPNOTSUPP, unix.EBUSY} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
