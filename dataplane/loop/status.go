package loop

import (
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Status is what /healthz, /livez and the metrics tell.
type Status struct {
	// Applied is the time of the last successful Apply, zero before the first.
	Applied time.Time
	// Waiting is when the oldest change that is not applied came in; zero if
	// there is none.
	Waiting time.Time
	// Ineligible: the own Node is unknown, or going away (KEP-3836). No load
	// balancer should send here.
	Ineligible bool
	// Services is the number of Services applied, Refused how many of them the
	// kernel does not take.
	Services int
	Refused  int
	// NoLocal counts the ports that policy Local leaves without an endpoint, of those applied.
	NoLocal plan.NoLocal
	// Queued is when a change came in last, Seen how many have, and Done those that are in the
	// kernel, or made no difference.
	Queued     time.Time
	Seen, Done Changes
}

// Changes are numbers of changes of objects.
type Changes struct{ Services, Slices uint64 }

func (c *Changes) count(o objects.Change) {
	switch {
	case o.Service != nil, o.Gone != nil && o.Gone.Kind == objects.KindService:
		c.Services++
	case o.Slice != nil, o.Gone != nil && o.Gone.Kind == objects.KindSlice:
		c.Slices++
	}
}

// Status is safe to call at any time, and never waits for a plan or the kernel.
func (l *Loop) Status() Status {
	l.statusMu.Lock()
	defer l.statusMu.Unlock()
	return l.status
}

func (l *Loop) tell(change func(*Status)) {
	l.statusMu.Lock()
	defer l.statusMu.Unlock()
	change(&l.status)
}

// The reasons of Events.
const (
	reasonRefused = "RefusedByKernel"
	reasonOdd     = "EndpointIsServiceAddress"
	reasonRivals  = "AddressClaimedTwice"
	reasonNode    = "NodeNotKnown"
)

// warn tells of a Service once for as long as the reason stays the same.
func (l *Loop) warn(said map[objects.Name]string, event func(_ objects.Name, reason, text string), name objects.Name, reason, text string) {
	if text == said[name] {
		return
	}
	if text == "" {
		delete(said, name)
		return
	}
	said[name] = text
	l.cfg.Logger.Warn("Service not served in full", "service", name, "reason", reason, "why", text)
	event(name, reason, text)
}
