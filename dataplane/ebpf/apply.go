package ebpf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/spaces"
)

// Config is what a Target needs.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
	// Pins is the namespace's folder below a bpffs (Folder). It is made if it is not there.
	Pins string
	// Sizes of maps that are made; the zero value is DefaultSizes.
	Sizes Sizes
	// SNATPorts are the first and the last port that masqueraded connections get. The node's
	// own programs must not be given these (net.ipv4.ip_local_reserved_ports). The zero value
	// is 61000 to 65535, which is above what the kernel gives to clients.
	SNATPorts [2]uint16
	// NoTCX: attach by clsact, as where the kernel has no tcx.
	NoTCX bool
	// Fault, of the contract suite, is asked before each write to the kernel, and
	// its error is the write's.
	Fault func() error
}

// Target is the programs and maps of one network namespace. Apply and Close are not safe for
// concurrent use; Watch may run beside them.
type Target struct {
	cfg    Config       // const after New
	log    *slog.Logger // const after New
	synced bool         // table is what the maps hold
	table  *table
	net    map[netip.Prefix]uint32 // networks in the map

	mu    sync.Mutex
	tcx   bool          // guarded by mu
	objs  *plumbObjects // guarded by mu; nil before the first Apply and after Close
	links plan.Link     // guarded by mu; by which own pods come
	node  []netip.Addr  // guarded by mu; where node ports are served
	ready bool          // guarded by mu; the programs are attached, and new devices get theirs
	had   map[int]bool  // guarded by mu; devices that had them, by index
}

// New makes a Target; nothing is opened or changed before Apply.
func New(cfg Config) *Target {
	if cfg.Sizes == (Sizes{}) {
		cfg.Sizes = DefaultSizes()
	}
	if cfg.SNATPorts == ([2]uint16{}) {
		cfg.SNATPorts = [2]uint16{61000, 65535}
	}
	return &Target{cfg: cfg, log: cfg.Logger}
}

// Apply brings the kernel from old to new. Both may be partial plans of the same
// Services; the cost is that of their difference. A nil old stands for a state of the
// kernel that is not known: then new must be complete, the maps are read back once, only
// differences are written, and every device gets its programs.
//
// An error that wraps *plan.Refused names frontends that are not served, and every other one
// is as asked: a frontend that a full map refused is as it was. After any other error the
// state is unknown again; the next Apply must have a nil old.
func (t *Target) Apply(ctx context.Context, old, new *plan.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var refused map[plan.Key]error
	var err error
	switch {
	case old == nil:
		refused, err = t.takeOver(new)
	case !t.synced:
		err = errors.New("apply a difference: the state of the maps is not known")
	default:
		refused, err = t.change(plan.Diff(old, new))
	}
	t.synced = err == nil
	if err != nil {
		return fmt.Errorf("apply to the maps: %w", err)
	}
	return t.refusals(new, refused)
}

// refusals adds the frontends of protocols that are not served.
func (t *Target) refusals(p *plan.Plan, refused map[plan.Key]error) error {
	for k := range plan.Index(p) {
		if !k.IsWildcard() && !served(k) {
			refused[k] = fmt.Errorf("the eBPF programs do not forward %s: %w", k.Protocol, errors.ErrUnsupported)
		}
	}
	if len(refused) > 0 {
		return &plan.Refused{Frontends: refused}
	}
	return nil
}

// Close closes what this process has open. Programs and maps stay.
func (t *Target) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs == nil {
		return nil
	}
	err := t.objs.Close()
	t.objs, t.synced, t.ready, t.had = nil, false, false, nil
	return err
}

// takeOver makes the maps those of the plan, whatever they hold, and then attaches the programs:
// what was there before serves until then.
func (t *Target) takeOver(p *plan.Plan) (map[plan.Key]error, error) {
	if err := t.start(); err != nil {
		return nil, err
	}
	s, err := read(&t.objs.plumbMaps)
	if err != nil {
		return nil, err
	}
	w := &writer{fault: t.cfg.Fault}
	table, orphans := adopt(&t.objs.plumbMaps, w, s)
	t.table, t.net = table, s.networks
	orphans.remove(w, &t.objs.plumbMaps, table.named()) // before anything wants their room
	if w.err != nil {
		return nil, w.err
	}
	want := plan.Index(p)
	c := plan.Changes{Node: &p.Node}
	for k := range table.fronts {
		if want[k] == nil {
			c.Gone = append(c.Gone, k)
		}
	}
	for a := range table.rest {
		if k := (plan.Key{IPv6: a.Is6(), Addr: a}); want[k] == nil {
			c.Gone = append(c.Gone, k)
		}
	}
	slices.SortFunc(c.Gone, plan.Key.Compare)
	for _, f := range want {
		c.Set = append(c.Set, f)
	}
	refused, err := t.change(c)
	if err != nil {
		return nil, err
	}
	for a := range s.classes { // those of frontends that are not there
		table.classify(a)
	}
	orphans.remove(w, &t.objs.plumbMaps, table.named())
	if w.err != nil {
		return nil, w.err
	}
	_, err = t.attach()
	return refused, err
}

func (t *Target) start() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs != nil {
		return nil
	}
	t.tcx = !t.cfg.NoTCX
	if t.tcx {
		err := spaces.Do(t.cfg.NetNS, func() (err error) { t.tcx, err = haveTCX(); return err })
		if err != nil {
			return err
		}
	}
	objs, err := load(t.cfg)
	if err != nil {
		return err
	}
	t.objs = objs
	return nil
}

// change writes what differs, the node first. A frontend that a map has no room for is refused.
func (t *Target) change(c plan.Changes) (map[plan.Key]error, error) {
	w, refused := t.table.w, map[plan.Key]error{}
	if c.Node != nil {
		if err := t.setNode(*c.Node); err != nil {
			return nil, err
		}
	}
	for _, k := range c.Gone {
		t.table.gone(k)
	}
	// The rest of an address is refused when all its frontends are there.
	slices.SortFunc(c.Set, func(a, b *plan.Frontend) int {
		if a.Key.IsWildcard() != b.Key.IsWildcard() {
			if a.Key.IsWildcard() {
				return 1
			}
			return -1
		}
		return a.Key.Compare(b.Key)
	})
	for _, f := range c.Set {
		if !f.Key.IsWildcard() && !served(f.Key) {
			continue
		}
		if why := t.table.set(*f); why != nil {
			refused[f.Key] = why
		}
		if w.err != nil {
			break
		}
	}
	err := w.err
	w.err = nil
	return refused, err
}

func (t *Target) setNode(n plan.Node) error {
	t.mu.Lock()
	t.links, t.node = n.LocalLink, n.Addrs
	ready := t.ready
	t.mu.Unlock()
	m, w, want := &t.objs.plumbMaps, t.table.w, networks(n)
	for p, flags := range want {
		if t.net[p] != flags {
			put(w, m.PlumbNetworks, plumbNetworkKey{Bits: bits(p), Addr: toAddr(p.Addr())}, flags)
		}
	}
	for p := range t.net {
		if want[p] == 0 {
			drop(w, m.PlumbNetworks, plumbNetworkKey{Bits: bits(p), Addr: toAddr(p.Addr())})
		}
	}
	t.table.setNode(n.Addrs)
	if w.err != nil {
		err := w.err
		w.err = nil
		return err
	}
	t.net = want
	devs, err := t.seen()
	if err != nil {
		return err
	}
	config := t.config(n, devs)
	var there plumbConfig
	if err := m.PlumbConfig.Lookup(uint32(0), &there); err != nil {
		return fmt.Errorf("read config: %w", err)
	}
	if there != config {
		if put(w, m.PlumbConfig, uint32(0), config); w.err != nil {
			return w.err
		}
	}
	if !ready {
		return nil
	}
	_, err = t.attach()
	return err
}

// seen are the devices of the node.
func (t *Target) seen() (out []device, err error) {
	t.mu.Lock()
	own := t.links
	t.mu.Unlock()
	err = spaces.Do(t.cfg.NetNS, func() (err error) {
		out, err = devices(own)
		return err
	})
	return out, err
}

func (t *Target) config(n plan.Node, devs []device) plumbConfig {
	c := plumbConfig{SnatLow: t.cfg.SNATPorts[0], SnatHigh: t.cfg.SNATPorts[1]}
	copy(c.LocalLink[:], n.LocalLink)
	if len(n.ServiceCIDRs) > 0 {
		c.Flags |= configServiceCIDRs
	}
	for _, a := range n.Addrs {
		if first := &c.Masquerade[family(a)]; *first == (plumbAddr{}) {
			*first = toAddr(a)
		}
	}
	for _, d := range devs {
		for f := range c.Masquerade {
			if c.Masquerade[f] == (plumbAddr{}) {
				c.Masquerade[f] = d.value.Masquerade[f]
			}
		}
	}
	return c
}

// attach gives every device its entry and its programs, and takes the entries of those that are
// gone. damaged says that one had lost a program.
func (t *Target) attach() (damaged bool, err error) {
	devs, err := t.seen()
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs == nil {
		return false, nil
	}
	if err := t.describe(devs); err != nil {
		return false, err
	}
	had, hooks := map[int]bool{}, t.objs.hooks()
	for i := range hooks {
		if t.ready { // nobody else's
			break
		}
		defer hooks[i].leave()
		if err := hooks[i].meet(t.cfg.Pins); err != nil {
			return false, err
		}
	}
	w := &writer{fault: t.cfg.Fault}
	err = spaces.Do(t.cfg.NetNS, func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink socket: %w", err)
		}
		defer nl.Close()
		attach := func(h hook, d device) (bool, error) { return h.attach(d, w) }
		if !t.tcx {
			attach = func(h hook, d device) (bool, error) { return h.attachFilter(nl, d, w) }
		}
		for _, d := range devs {
			for _, h := range hooks {
				lacked, err := attach(h, d)
				if err != nil {
					return err
				}
				damaged = damaged || lacked && t.had[d.index]
			}
			had[d.index] = true
		}
		return nil
	})
	if err != nil {
		return damaged, err
	}
	for _, h := range hooks {
		if t.ready {
			break
		}
		if err := h.pin(t.cfg.Pins); err != nil {
			return damaged, err
		}
	}
	t.had, t.ready = had, true
	return damaged, nil
}

// describe is called with mu held.
func (t *Target) describe(devs []device) error {
	w, m := &writer{fault: t.cfg.Fault}, t.objs.PlumbDevices
	there := map[uint32]plumbDevice{}
	if err := entries(m, func(k uint32, v plumbDevice) { there[k] = v }); err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	for _, d := range devs {
		k := uint32(d.index)
		if had, is := there[k]; !is || had != d.value {
			put(w, m, k, d.value)
		}
		delete(there, k)
	}
	for k := range there {
		drop(w, m, k)
	}
	return w.err
}
