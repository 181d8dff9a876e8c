package ebpf

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/spaces"
)

// Config is what a Target needs.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
	// Pins is the namespace's folder below a bpffs (Folder). It is made if it is not there. Empty:
	// that below Root, where the first Apply demands a bpffs.
	Pins string
	// Cgroup is the path of a cgroup2 folder: sockets that are made by threads within, the node's own
	// and those of its pods, are translated when they connect or send. Empty: none is, and what a
	// predecessor has attached there goes.
	Cgroup string
	// PodSpaces is a folder that has pods' network namespaces as files, as /run/netns: their UDP sockets
	// whose endpoint is gone are ended too, which takes SYS_ADMIN. Empty: they are counted.
	PodSpaces string
	// ResetTCP: TCP sockets that were led to an endpoint which no TCP frontend has named for so long, in whatever
	// state, are ended: the node's and, with PodSpaces, pods'. 0: never.
	ResetTCP time.Duration
	// Sizes of maps that are made; the zero value is DefaultSizes.
	Sizes Sizes
	// SNATPorts are the first and the last port that masqueraded connections get. The node's
	// own programs must not be given these (net.ipv4.ip_local_reserved_ports). The zero value
	// is 16384 to 29999, below node ports and what the kernel gives to clients (from 32768 on), and
	// above what daemons listen at: above 60999 only a third as many are left, and a port is taken
	// for 61 s after its connection, 10 s after one that was reset.
	SNATPorts [2]uint16
	// Elsewhere finds the connections that others on the node masquerade with these ports, the first and
	// the last: whose rules were there before the programs. No other connection gets their ports to the
	// same endpoint, for as long as they go on. It is asked when programs come to a node that has none,
	// before any frontend is there, and once more by Watch's next sweep, when such rules are gone. nil: there are none.
	Elsewhere func(ctx context.Context, ports [2]uint16) ([]Elsewhere, error)
	// Grace is how long entries stay when the last frontend has led to them; the zero value is
	// 100 ms.
	Grace time.Duration
	// NoTCX: attach by clsact, as where the kernel has no tcx.
	NoTCX bool
	// Verifier opens, once for each load, what gets the kernel's log of verifying the programs, some
	// ten megabytes, which are then loaded also where those of this build are there; nil: nobody
	// does. The error of a load that fails has the log's end in any case.
	Verifier func() (io.WriteCloser, error)
	// Dropped is asked by Watch for who is to be told of packets that go no further, one at a time
	// and not of all: Drop says of how many; nil, or asked in vain: nobody is, and none are read.
	Dropped func(context.Context) func(Drop)
	// Alter, of tests, changes each collection of programs before it is loaded. They are pinned as those of
	// this build are, whose next process would take them for its own: who alters cleans up. nil: nobody does.
	Alter func(*ebpf.CollectionSpec) error
	// Fault, of the contract suite, is asked before each write to the kernel, and
	// its error is the write's.
	Fault func() error
}

// Target is the programs and maps of one network namespace. Apply and Close are not safe for
// concurrent use; Watch may run beside them.
type Target struct {
	cfg    Config       // const after New, but for Pins, which the first Apply finds
	log    *slog.Logger // const after New
	synced bool         // table is what the maps hold
	table  *table
	grace  *grace                  // const after New
	ledger *ledger                 // const after New
	glance time.Duration           // const after New
	net    map[netip.Prefix]uint32 // networks in the map

	changed chan struct{} // const after New; there was an Apply
	named   *named        // const after New; endpoints that TCP frontends name

	mu        sync.Mutex
	tcx       bool           // guarded by mu
	objs      *plumbObjects  // guarded by mu; nil before the first Apply and after Close
	socks     *socketObjects // guarded by mu; nil as objs is, and without Config.Cgroup
	links     plan.Link      // guarded by mu; by which own pods come
	ready     bool           // guarded by mu; devices have been given programs, and new ones get theirs
	alone     bool           // guarded by mu; no device has a predecessor's program any more
	had       map[int]bool   // guarded by mu; devices that had them, by index
	atSockets bool           // guarded by mu; the cgroup had all of them
	loose     error          // guarded by mu; why programs are not at sockets any more, and cannot be now
	uses      []Use          // guarded by mu; of the last sweep
	stranded  int            // guarded by mu; sockets at the last look
	short     []string       // guarded by mu; maps that lack entries, until a complete Apply
	others    bool           // guarded by mu; connections elsewhere are to be looked for once more
}

// New makes a Target; nothing is opened or changed before Apply.
func New(cfg Config) *Target {
	if cfg.Sizes == (Sizes{}) {
		cfg.Sizes = DefaultSizes()
	}
	if cfg.SNATPorts == ([2]uint16{}) {
		cfg.SNATPorts = snatPorts()
	}
	if cfg.Grace == 0 {
		cfg.Grace = 100 * time.Millisecond
	}
	l := &ledger{}
	return &Target{cfg: cfg, log: cfg.Logger, ledger: l, glance: glanceEvery, grace: newGrace(cfg.Grace, l, cfg.Logger), changed: make(chan struct{}, 1), named: newNamed()}
}

// Close closes what this process has open. Programs and maps stay, and what was still to be
// deleted: the next complete Apply does that.
func (t *Target) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs == nil {
		return nil
	}
	t.grace.forget()
	t.ledger.close()
	err := t.objs.Close()
	if t.socks != nil {
		err = errors.Join(err, t.socks.Close())
	}
	t.objs, t.socks, t.synced, t.ready, t.alone, t.had, t.atSockets, t.loose = nil, nil, false, false, false, nil, false, nil
	return err
}

func (t *Target) start() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs != nil {
		return nil
	}
	if t.cfg.Pins == "" {
		pins, err := mounted(t.cfg.NetNS)
		if err != nil {
			return err
		}
		t.cfg.Pins = pins
	}
	t.tcx = !t.cfg.NoTCX
	if t.tcx {
		err := spaces.Do(t.cfg.NetNS, func() (err error) { t.tcx, err = haveTCX(); return err })
		if err != nil {
			return err
		}
		if !t.tcx {
			t.log.Info("the kernel has no tcx (Linux 6.6): programs are attached by clsact")
		}
	}
	objs, err := load(t.cfg)
	if err != nil {
		return err
	}
	if t.cfg.Cgroup != "" {
		if t.socks, err = loadSockets(t.cfg, &objs.plumbMaps); err != nil {
			return errors.Join(err, objs.Close())
		}
	}
	t.objs = objs
	return nil
}
