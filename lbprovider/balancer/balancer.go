package balancer

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// Config is what a Fleet needs. Constant after New.
type Config struct {
	Cluster  string
	Ranges   map[lbplan.Family]netip.Prefix // one per family that can be served
	Profile  profile.Profile
	StateDir string // of this cluster; one directory per load balancer below it
	// HAProxyDir is where every HAProxy sees its own directory (a mount);
	// empty if it is where the provider sees it.
	HAProxyDir string
	// BindAddress has HAProxy listen on the load balancer's addresses only,
	// for one that shares its addresses with others.
	BindAddress bool
	Instances   Instances
	Recorder    *records.Recorder
	// ClearStatus removes status.loadBalancer of a Service that is refused;
	// the service controller only writes it on success.
	ClearStatus func(ctx context.Context, svc *v1.Service) error
	Log         *slog.Logger
}

// Instances runs the HAProxy processes: containers on kind, else processes.
type Instances interface {
	List(ctx context.Context) ([]instance.Instance, error)
	Matches(i instance.Instance, s instance.Spec) bool
	Start(ctx context.Context, s instance.Spec) error
	Stop(ctx context.Context, name string) error
	// ComeFirst is for one that ran when this process began: its log is read from now on.
	ComeFirst(name string)
	// Taken is who has which address, in a map of the caller's own.
	Taken(ctx context.Context) (map[netip.Addr]string, error)
}

// Why there is no load balancer, besides a refusal.
var (
	errDeleted = errors.New("its load balancer was deleted")
	errNone    = errors.New("it has no load balancer")
)

// Balancer is one load balancer, as this process knows it. It outlives what runs: an
// update that comes late must not bring that back. A process that starts finds the same in
// what runs and in the API (see Fleet.Sweep).
type Balancer struct {
	cfg  *Config // the Fleet's; const
	pool *pool
	name string // const
	dir  runDir // const

	op sync.Mutex // held by the one operation that works on the load balancer

	mu       sync.Mutex           // guards the fields below; nobody outside this process is asked with it held
	spec     instance.Spec        // to start it again; no name: not known
	goal     lbplan.LB            // what it was last brought to
	drains   map[string]time.Time // when the connections of servers that are gone are ended
	leaving  map[string]bool      // servers that a change which has not succeeded yet takes away
	ending   bool                 // see beginDrain
	unheard  haproxy.Unheard
	told     []netip.Addr // what Ensure last returned, for the controller to publish
	ended    error        // why it must not exist: errDeleted, a refusal, its version; nil: it may
	reviving bool         // see revive
	looks    int          // that revive has left
}

func newBalancer(c *Config, p *pool, name string) *Balancer {
	return &Balancer{cfg: c, pool: p, name: name, dir: newRunDir(filepath.Join(c.StateDir, name))}
}

// Name is that of its instance.
func (b *Balancer) Name() string { return b.name }

func (b *Balancer) lock() (unlock func()) {
	b.op.Lock()
	return b.op.Unlock
}

// set changes what is known.
func (b *Balancer) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// serving are those of addrs whose family reaches a node; called with mu held. A client
// that is told of another one is turned away there, instead of trying the next.
func (b *Balancer) serving(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !b.goal.Serves(lbplan.FamilyOf(a)) })
}

// find returns what there is of it.
func (b *Balancer) find(ctx context.Context) (instance.Instance, bool, error) {
	all, err := b.cfg.Instances.List(ctx)
	for _, i := range all {
		if i.Name == b.name {
			return i, true, nil
		}
	}
	return instance.Instance{}, false, err
}

// specOf is what i was, or is to be, started with.
func (b *Balancer) specOf(i instance.Instance) instance.Spec {
	return instance.Spec{Name: b.name, Service: i.Service, UID: i.UID, Dir: b.dir.path, Addrs: i.Addrs, Owner: b.dir.owner()}
}

func (b *Balancer) client() *haproxy.Client { return haproxy.NewClient(b.dir.path) }
