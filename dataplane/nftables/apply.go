package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Config is what a Target needs.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
}

// Target keeps the two tables of one network namespace. It is not safe for
// concurrent use, and expects to be the only one that writes to its tables.
type Target struct {
	log   *slog.Logger // const after New
	netns int          // const after New

	conn *netlink.Conn // nil until needed, and after an error
	room int           // bytes a batch may have on conn
	// The rest mirrors the kernel while synced is true.
	synced   bool
	node     []Element
	fronts   map[plan.Key]plan.Frontend // endpoints in the order of their slots
	hairpins map[netip.Addr]int         // frontends that may send to a local endpoint
	chains   map[familyClass]bool
}

type familyClass struct {
	v6    bool
	class class
}

// New makes a Target; nothing is opened or changed before Apply.
func New(cfg Config) *Target {
	return &Target{log: cfg.Logger, netns: cfg.NetNS}
}

// Apply brings the kernel from old to new. Both may be partial plans of the same
// Services; the cost is that of their difference. A nil old stands for a state
// of the kernel that is not known (start, or a failed Apply): then new must be
// complete, the tables are read back once, and only differences are written.
// Nothing is flushed, and connections keep their rules throughout.
//
// After an error the state is unknown again; the next Apply must have a nil old.
func (t *Target) Apply(ctx context.Context, old, new *plan.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if old == nil {
		return t.takeOver(new)
	}
	if !t.synced {
		return errors.New("apply a difference: the state of the tables is not known")
	}
	if err := t.change(plan.Diff(old, new)); err != nil {
		t.forget()
		return fmt.Errorf("change nftables: %w", err)
	}
	return nil
}

// Close frees the connection. The rules stay.
func (t *Target) Close() error {
	if t.conn == nil {
		return nil
	}
	err := t.conn.Close()
	t.conn = nil
	return err
}

func (t *Target) forget() {
	t.synced = false
	_ = t.Close() // a broken connection is not used again
}

// batchElements is the number of elements written (deleted or added) at which a
// large change is split, between two frontends: each of them still changes as a
// whole.
const batchElements = 4000

// full tells whether a change is to be split here. Half of the room is kept for
// the frontend that was added last.
func full(b *batch, o *ops, room int) bool {
	writes, bytes := o.size()
	return writes >= batchElements || bytes+b.bytes() >= room/2
}

func (t *Target) change(c plan.Changes) error {
	if err := t.dial(); err != nil {
		return err
	}
	b, o := &batch{}, newOps()
	if c.Node != nil {
		node := nodeElements(*c.Node)
		o.replace(t.node, node)
		t.node = node
	}
	for _, key := range c.Gone {
		t.replaceFrontend(b, o, key, nil)
		if err := t.sendIfLarge(&b, &o); err != nil {
			return err
		}
	}
	for _, f := range c.Set {
		t.replaceFrontend(b, o, f.Key, &f)
		if err := t.sendIfLarge(&b, &o); err != nil {
			return err
		}
	}
	return t.send(b, o)
}

// replaceFrontend adds to a batch what changes for one frontend, nil for none.
func (t *Target) replaceFrontend(b *batch, o *ops, key plan.Key, f *plan.Frontend) {
	was, had := t.fronts[key]
	var old, elems []Element
	var oldPins, pins []netip.Addr
	if had {
		old, oldPins = frontendElements(was), hairpins(was)
	}
	if f == nil {
		delete(t.fronts, key)
	} else {
		settled := settleFrontend(was, *f)
		elems, pins = frontendElements(settled), hairpins(settled)
		t.fronts[key] = settled
		t.needClasses(b, settled)
	}
	o.replace(old, elems)
	t.countHairpins(o, oldPins, pins)
}

// countHairpins keeps an element for every local endpoint that some frontend uses.
func (t *Target) countHairpins(o *ops, old, new []netip.Addr) {
	for _, a := range new {
		t.hairpins[a]++
		if t.hairpins[a] == 1 {
			o.add(hairpinElement(a))
		}
	}
	for _, a := range old {
		t.hairpins[a]--
		if t.hairpins[a] == 0 {
			delete(t.hairpins, a)
			o.del(hairpinElement(a))
		}
	}
}

// needClasses adds the chains of classes that no frontend had before. They are
// never removed while the tables stand: there is one for each number of
// endpoints ever seen, whatever the number of Services.
func (t *Target) needClasses(b *batch, f plan.Frontend) {
	need := []class{classOf(outsideView(f.Key), f.Outside)}
	if f.Inside != nil {
		need = append(need, classOf(viewInside, *f.Inside))
	}
	for _, c := range need {
		if at := (familyClass{f.Key.IPv6, c}); !t.chains[at] {
			b.class(familyOf(f.Key.IPv6), c)
			t.chains[at] = true
		}
	}
}

func (t *Target) sendIfLarge(b **batch, o **ops) error {
	if !full(*b, *o, t.room) {
		return nil
	}
	err := t.send(*b, *o)
	*b, *o = &batch{}, newOps()
	return err
}

func (t *Target) send(b *batch, o *ops) error {
	o.write(b)
	if b.empty() {
		return nil
	}
	if err := t.dial(); err != nil {
		return err
	}
	if n := b.bytes(); n > t.room {
		return fmt.Errorf("a batch of %d bytes does not fit the netfilter socket's buffer of %d; raise the sysctl net.core.wmem_max", n, t.room)
	}
	return b.send(t.conn)
}

func (t *Target) dial() error {
	if t.conn != nil {
		return nil
	}
	conn, err := dial(t.netns)
	if err != nil {
		return err
	}
	room, err := granted(conn)
	if err != nil {
		_ = conn.Close()
		return err
	}
	t.conn, t.room = conn, room
	return nil
}

// granted is the largest message a socket takes, which may be far less than what
// it was asked to (net.core.wmem_max).
func granted(conn *netlink.Conn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("use netfilter socket: %w", err)
	}
	var size int
	var failed error
	err = raw.Control(func(fd uintptr) { size, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF) })
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("read the netfilter socket's buffer size: %w", err)
	}
	return size - sendOverhead, nil
}

// sendOverhead is what netlink_sendmsg keeps of a buffer for itself.
const sendOverhead = 32

// socketBuffer has room for the largest batch and for the errors that may answer it.
const socketBuffer = 8 << 20

func dial(netns int) (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	if err := errors.Join(conn.SetWriteBuffer(socketBuffer), conn.SetReadBuffer(socketBuffer)); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("enlarge netfilter socket: %w", err)
	}
	return conn, nil
}
