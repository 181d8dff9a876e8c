package nftables

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Config is what a Target needs.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
	// Own: nobody else writes to the tables while this process has a socket open, whose they
	// are (Ownable). They stay when it ends.
	Own bool
	// Fault is called before each transaction and once the kernel has taken it: with its
	// error the transaction fails, as one that was not written or whose word was lost. It
	// is the contract suite's, nil otherwise.
	Fault func() error
}

// Target keeps the two tables of one network namespace. Apply and Close are not
// safe for concurrent use; Watch may run beside them. A Target expects to be the
// only one that writes to its tables, and that plans given to it stay as they are.
type Target struct {
	log   *slog.Logger // const after New
	netns int          // const after New
	fault func() error // const after New
	port  uint32       // const after New: of the socket that writes
	flags uint32       // const after New: of the tables
	fam   *both        // const after New

	kernel  func(*batch) error // tests: a kernel that lacks something
	dialled func(*conn)        // tests: a socket that is granted little

	conn *conn // nil until needed, and after an error
	lack error // why the kernel has no family ip6, nil if it has

	without6 atomic.Bool // it has none, as of the last complete Apply

	// The rest mirrors the kernel while synced is true.
	synced   bool
	node     []Element
	fronts   map[plan.Key]mirrored
	groups   *groups
	hairpins map[hairpin]int // slots of frontends that hold an endpoint which may be their client
	chains   map[chainRef]bool

	// Of one Apply.
	present *state             // what a take-over found and nobody has claimed, nil for a difference
	stands  map[bool]bool      // of present, by family (IPv6): table, sets and constant chains are as they should be
	head    func(*batch, *ops) // goes before the first frontends, nil once it is sent
	refused map[plan.Key]error
	ops     *ops // of the batch that is being made

	replacing bool         // tables are being replaced
	tail      func(*batch) // goes after the last frontend, nil once frontends go by themselves
}

// New makes a Target; nothing is opened or changed before Apply.
func New(cfg Config) *Target {
	var port [4]byte
	_, _ = rand.Read(port[:]) // cannot fail
	// The kernel gives sockets the process's number, or one above this.
	const ours = 1 << 30
	return &Target{
		log: cfg.Logger, netns: cfg.NetNS, fault: cfg.Fault, fam: newBoth(),
		port: ours | binary.NativeEndian.Uint32(port[:])>>2, flags: map[bool]uint32{true: tableOwned}[cfg.Own],
	}
}

// Apply brings the kernel from old to new. Both may be partial plans of the same
// Services; the cost is that of their difference. A nil old stands for a state
// of the kernel that is not known (start, or a failed Apply): then new must be
// complete, the tables are read back once, and only differences are written.
// Nothing is flushed, and connections keep their rules throughout.
//
// An error that wraps *plan.Refused says that the kernel did not take some
// frontends, and has everything else. A frontend that a difference could not
// change is as it was; one that a take-over found is gone. After any other error
// the state is unknown again; the next Apply must have a nil old.
func (t *Target) Apply(ctx context.Context, old, new *plan.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.refused = map[plan.Key]error{}
	var err error
	switch {
	case old == nil:
		err = t.takeOver(new)
	case !t.synced:
		return errors.New("apply a difference: the state of the tables is not known")
	default:
		if err = t.change(plan.Diff(old, new)); err == nil {
			err = t.keep()
		}
		if err != nil {
			t.forget()
			err = fmt.Errorf("change nftables: %w", err)
		}
	}
	if err == nil && len(t.refused) > 0 {
		return fmt.Errorf("write to nftables: %w", &plan.Refused{Frontends: t.refused})
	}
	return err
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

// WithoutIPv6 tells whether the kernel has no nftables for it: only IPv4 is served. It is safe to
// call at any time.
func (t *Target) WithoutIPv6() bool { return t.without6.Load() }

func (t *Target) forget() {
	t.synced = false
	_ = t.Close() // a broken connection is not used again
}

func (t *Target) change(c plan.Changes) error {
	t.head = nil
	if c.Node != nil {
		was, now := t.node, t.ofKnownFamilies(nodeElements(*c.Node))
		t.head = func(_ *batch, o *ops) { o.replace(was, now) }
		t.node = now
	}
	steps := make([]step, 0, len(c.Gone)+len(c.Set))
	for _, key := range c.Gone {
		steps = append(steps, step{key: key})
	}
	for i := range c.Set {
		steps = append(steps, step{key: c.Set[i].Key, want: c.Set[i]})
	}
	return t.run(t.possible(steps))
}

// possible refuses what belongs to a family that the kernel lacks.
func (t *Target) possible(steps []step) []step {
	if t.lack == nil {
		return steps
	}
	out := steps[:0]
	for _, s := range steps {
		if !s.key.IPv6 {
			out = append(out, s)
		} else if s.want != nil {
			t.refused[s.key] = fmt.Errorf("no nftables for IPv6: %w", t.lack)
		}
	}
	return out
}

// ofKnownFamilies leaves out elements of a family that the kernel lacks.
func (t *Target) ofKnownFamilies(elems []Element) []Element {
	if t.lack == nil {
		return elems
	}
	return slices.DeleteFunc(elems, func(e Element) bool { return e.id.v6 })
}
