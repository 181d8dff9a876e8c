// Package loop carries changes of objects to the node: change -> plan ->
// Target.Apply -> health checks.
//
// There is no waiting for its own sake. A change that finds the loop idle is
// applied at once; what comes while an Apply runs is taken together by the next
// one, so the batches grow with the load and no further. One changed Service
// costs a plan of that Service, however many there are. Only what leaves a Service
// without an endpoint waits a moment (refill): a slice that is deleted and made again, or
// whose endpoints move to another, is to refuse no connection in between.
//
// Order: rules first, then the healthCheckNodePort listeners and counts. A load
// balancer must not learn of an endpoint before the rules can reach it.
//
// A failed Apply is retried with growing delay, as a complete one: the Target
// reads back what is there and writes only what differs. So is the state when
// somebody else has changed it (Lost), and once in an hour. A Service that the
// kernel refuses is set aside with an Event, and tried again when it changes or
// with the next complete Apply; all others go on.
package loop

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Target is a backend. Apply brings the kernel from old to new; a nil old means
// that the kernel's state is not known and new is complete. An error that wraps
// *plan.Refused says that everything but the frontends in it is as asked.
type Target interface {
	Apply(ctx context.Context, old, new *plan.Plan) error
}

// HealthChecks serves the healthCheckNodePorts.
type HealthChecks interface {
	// Sync replaces all healthCheckNodePorts and the addresses they listen at.
	Sync(node plan.Node, checks map[objects.Name]plan.HealthCheck)
}

// Flows ends what conntrack remembers of endpoints that serve no more. It is told when the
// Target begins with a change and when that is in the kernel, and waits for nothing. A nil
// old stands for a start, or a change that was missed. refused are all frontends that the
// kernel does not take by now: their rules are as they were. What it is given stays as it is.
type Flows interface {
	Changing()
	Changed(old, new *plan.Plan, refused map[plan.Key]error)
}

// Events tells a Service's owner what cannot be done for it, and the node's why nothing is.
// Warn is of this node, WarnOfObject of what the agent of every node sees of the same objects.
type Events interface {
	Warn(service objects.Name, reason, text string)
	WarnOfObject(service objects.Name, reason, text string)
	WarnNode(reason, text string)
}

// Config is what a Loop needs.
type Config struct {
	Options      plan.Options
	Target       Target
	HealthChecks HealthChecks
	Flows        Flows // nil: none to keep
	Events       Events
	Observe      func(Round) // nil: nobody wants to know
	Logger       *slog.Logger
}

// Round is what one Apply was.
type Round struct {
	Services int           // in the change
	Complete bool          // read back and compared, not a difference
	Waited   time.Duration // since the oldest change in it came in
	Took     time.Duration // by the Target
	Failed   bool
	// Triggers are those of the changes in it, and of rounds before it that failed.
	Triggers []Trigger
}

// Trigger is what a slice was written anew for.
type Trigger struct {
	At   time.Time
	IPv6 bool // the family of the slice's endpoints
}

// Loop is the state between the objects and the kernel.
type Loop struct {
	cfg     Config
	wake    chan struct{}
	inspect chan func(*plan.Plan, map[plan.Key]error)

	mu      sync.Mutex
	snap    objects.Snapshot         // guarded by mu
	dirty   plan.Dirty               // guarded by mu; Services not applied yet
	node    bool                     // guarded by mu; the Node is not applied yet
	lost    bool                     // guarded by mu; the kernel's state is not known
	started bool                     // guarded by mu; the first changes are in, and the Node
	absent  string                   // guarded by mu; what was last told of the Node's absence
	emptied map[objects.Name]emptied // guarded by mu; Services without endpoints by changes not taken yet
	trigger []Trigger                // guarded by mu; of changes not taken yet
	seen    Changes                  // guarded by mu

	// statusMu is taken for moments only, and after mu where both are: probes
	// must not wait while a plan of all Services is built.
	statusMu sync.Mutex
	status   Status // guarded by statusMu

	// Only Run touches the rest.
	applied plan.Plan
	claims  plan.Claims
	checks  map[objects.Name]plan.HealthCheck
	refused map[plan.Key]error // frontends that the kernel does not take
	noLocal plan.NoLocal
	known   bool      // the Target holds what applied says
	taken   []Trigger // of changes not applied yet
	doing   Changes   // seen when the changes were taken
	// What was last told of a Service.
	toldRefused, toldOdd, toldRivals map[objects.Name]string
}

// New makes a Loop that does nothing before Run.
func New(cfg Config) *Loop {
	return &Loop{
		cfg:         cfg,
		wake:        make(chan struct{}, 1),
		inspect:     make(chan func(*plan.Plan, map[plan.Key]error)),
		dirty:       plan.Dirty{},
		emptied:     map[objects.Name]emptied{},
		applied:     plan.Plan{Services: map[objects.Name]plan.Service{}},
		checks:      map[objects.Name]plan.HealthCheck{},
		refused:     map[plan.Key]error{},
		toldRefused: map[objects.Name]string{}, toldOdd: map[objects.Name]string{}, toldRivals: map[objects.Name]string{},
		status: Status{Ineligible: true},
	}
}

// Handle takes changes in. The first call must bring the complete state; until
// then nothing is applied, nor before the own Node is there and has an address (and a podCIDR,
// where that tells which pods are local): what
// serves in the kernel since before would lose its node ports, and its short circuit of
// policy Local, for an object that is late (kube-proxy waits for it too). It waits for no
// kernel, but for a plan that is being made: milliseconds, or a second or so where all
// Services change.
func (l *Loop) Handle(changes []objects.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		name := ofSlice(c)
		before := l.served(name)
		l.touch(l.snap.Apply(c))
		l.noteEmptied(name, before)
		l.seen.count(c)
		if !c.Triggered.IsZero() {
			l.trigger = append(l.trigger, Trigger{c.Triggered, len(c.Slice.Endpoints) > 0 && c.Slice.Endpoints[0].Addr.Is6()})
		}
	}
	l.tell(func(s *Status) { s.Seen = l.seen })
	if !l.started && !l.nodeKnown() {
		return
	}
	l.started = true
	l.tell(func(s *Status) { s.Ineligible = l.snap.Node.Leaving })
	l.wakeUp()
}

// nodeKnown tells it to the node's owner if not. It is called with mu held.
func (l *Loop) nodeKnown() bool {
	text := ""
	switch n := l.snap.Node; {
	case n == nil:
		text = "there is no such Node in the API"
	case len(n.InternalIPs) == 0:
		text = "the Node has no address of type InternalIP"
	case l.cfg.Options.Local == plan.ByNodeCIDR && len(n.PodCIDRs) == 0:
		text = "the Node has no podCIDR (--detect-local=NodeCIDR)"
	}
	if text != "" && text != l.absent {
		l.absent = text
		text += ": nothing is changed on this node before that is there"
		l.cfg.Logger.Warn("own Node is not known", "node", l.cfg.Options.Node, "why", text)
		l.cfg.Events.WarnNode(reasonNode, text)
	}
	return text == ""
}

func (l *Loop) touch(t objects.Touched) {
	if !l.started { // there is no plan yet
		t.Slice = nil
	}
	l.dirty.Add(t)
	l.node = l.node || t.Node
	if t.All {
		for name := range l.snap.Services {
			l.dirty[name] = nil
		}
	}
}

// Lost says that somebody else may have changed what the Target keeps: it is read
// back and mended. Before the first change it means nothing.
func (l *Loop) Lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		return
	}
	l.lost = true
	l.wakeUp()
}

// wakeUp is called with mu held.
func (l *Loop) wakeUp() {
	l.tell(func(s *Status) {
		s.Queued = time.Now()
		if s.Waiting.IsZero() {
			s.Waiting = s.Queued
		}
	})
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Inspect calls f with the plan that was applied last and the frontends of it that
// the kernel refused, between two rounds of Run. f must not keep or change them;
// the Services of a plan are replaced and never changed.
func (l *Loop) Inspect(ctx context.Context, f func(p *plan.Plan, refused map[plan.Key]error)) error {
	done := make(chan struct{})
	run := func(p *plan.Plan, refused map[plan.Key]error) { f(p, refused); close(done) }
	select {
	case l.inspect <- run:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The delays between attempts after a failure, and, at most, between complete checks.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 10 * time.Second
	selfCheck  = time.Hour
)

// Run applies changes until ctx ends. What is in the kernel then stays there.
func (l *Loop) Run(ctx context.Context) error {
	check := time.NewTicker(selfCheck - rand.N(selfCheck/4)) // nodes that began at once need not look at once
	defer check.Stop()
	delay := retryFirst
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-l.inspect:
			f(&l.applied, l.refused)
			continue
		case <-check.C:
			l.Lost()
			continue
		case <-l.wake:
			if retry != nil {
				continue // the retry takes it along
			}
			l.awaitRefill(ctx)
		case <-retry:
			retry = nil
		}
		if l.round(ctx) {
			retry, delay = nil, retryFirst
			continue
		}
		if retry == nil {
			retry = time.After(delay)
			delay = min(2*delay, retryMost)
		}
	}
}
