package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/fixtures/probe"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/timeouts"
)

// Deadline ends an attempt; it is classified at Params.Timeout later.
const Deadline = 10 * time.Second

// Params are what may be set of a scenario, the same for all.
type Params struct {
	Rollouts int     // counted per row
	Rate     float64 // new connections per second
	Timeout  time.Duration
	Delay    time.Duration // the app serves this long after SIGTERM
	PreStop  time.Duration
	Grace    time.Duration // 0: enough for PreStop and Delay
	MinReady time.Duration
	Unready  bool          // the app fails its readiness on SIGTERM
	Hold     time.Duration // of a fault
}

// GraceSeconds is the pods' terminationGracePeriodSeconds.
func (p Params) GraceSeconds() time.Duration {
	if p.Grace > 0 {
		return p.Grace
	}
	return p.PreStop + p.Delay + 10*time.Second
}

// Planned is a scenario as it is to be run.
type Planned struct {
	Entry
	Params
}

// Run is what is to be measured: scenarios, each on the same rows.
type Run struct {
	Scenarios  []Planned
	Rows       []row.Row
	Profile    string
	Seed       uint64
	MaxLost    int // requests that a row which is judged may lose in all
	Background Background
	Timeouts   Timeouts
	Command    string // the line that does it again; empty: nobody typed one
}

// Background is what a cluster holds beside the workload that is measured.
type Background struct {
	Pods     int // they run, in Deployments of ten
	Services int // each selects the pods of one Deployment
}

// Timeouts are the waits for what is no matter of the dataplane.
type Timeouts struct {
	Settle     time.Duration // for the workload and the balancer, beyond the pod's own time
	Background time.Duration // for all that runs beside the workload
}

// DefaultTimeouts are long for a quiet host.
func DefaultTimeouts() Timeouts {
	return Timeouts{Settle: 90 * time.Second, Background: 5 * time.Minute}
}

// Plan is a run of scenarios with their own defaults. No rows and no profile: theirs, of which
// there must be one.
func Plan(rows []row.Row, profile string, entries ...Entry) (Run, error) {
	r := Run{Rows: rows, Profile: profile, Seed: 1, Timeouts: DefaultTimeouts()}
	for _, e := range entries {
		r.Scenarios = append(r.Scenarios, Planned{e, e.Defaults})
		first := entries[0]
		if r.Profile = cmp.Or(r.Profile, e.Profile); profile == "" && e.Profile != r.Profile {
			return r, fmt.Errorf("scenarios %s and %s are for the load balancer profiles %s and %s: give one with --profile", first.Name, e.Name, first.Profile, e.Profile)
		}
		if len(r.Rows) == 0 {
			r.Rows = slices.Clone(e.Rows)
		}
		if len(rows) == 0 && !slices.Equal(e.Rows, r.Rows) {
			return r, fmt.Errorf("scenarios %s and %s are for other dataplanes, %s and %s: give them with --rows", first.Name, e.Name, row.Names(first.Rows), row.Names(e.Rows))
		}
	}
	return r, nil
}

// Flags lets the command line change all of a run's scenarios.
func (r *Run) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&r.Profile, "profile", r.Profile, "load balancer: "+profile.Usage())
	fs.IntVar(&r.Background.Pods, "background-pods", r.Background.Pods, "pods that run beside the workload")
	fs.IntVar(&r.Background.Services, "background-services", r.Background.Services, "Services beside the workload's, of ten endpoints each")
	timeouts.Var(fs, &r.Timeouts)
	fs.IntVar(&r.MaxLost, "max-lost", r.MaxLost, "requests that a row which is judged may lose in all, in each scenario")
	fs.Uint64Var(&r.Seed, "seed", r.Seed, "of arrivals and phases")
}

// Flags lets the command line change a scenario.
func (p *Params) Flags(fs *pflag.FlagSet) {
	fs.IntVar(&p.Rollouts, "rollouts", p.Rollouts, "rollouts that count, per row and scenario")
	fs.Float64Var(&p.Rate, "rate", p.Rate, "new connections per second")
	fs.DurationVar(&p.Timeout, "timeout", p.Timeout, "the client's patience: an answer later than this is a loss")
	fs.DurationVar(&p.Delay, "delay", p.Delay, "how long the app serves after SIGTERM")
	fs.DurationVar(&p.PreStop, "prestop", p.PreStop, "preStop sleep before SIGTERM")
	fs.DurationVar(&p.Grace, "grace", p.Grace, "terminationGracePeriodSeconds (default: preStop + delay + 10s)")
	fs.DurationVar(&p.MinReady, "min-ready", p.MinReady, "minReadySeconds of the Deployment")
	fs.BoolVar(&p.Unready, "unready-on-sigterm", p.Unready, "the app fails its readiness on SIGTERM")
	fs.DurationVar(&p.Hold, "hold", p.Hold, "how long a fault stays that is taken back (api-outage)")
}

// Validate says in one line what is wrong with a run, before anything is done.
func (r Run) Validate() error {
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{len(r.Scenarios) == 0, "no scenarios: name at least one"},
		{len(r.Rows) == 0, "no rows: name at least one dataplane"},
		{r.MaxLost < 0, fmt.Sprintf("%d lost requests: must not be negative", r.MaxLost)},
		{r.Background.Pods < 0 || r.Background.Services < 0, "background pods and services must not be negative"},
		{r.Background.Services > 0 && r.Background.Pods == 0, "background services need background pods to select"},
	} {
		if c.bad {
			return errors.New(c.what)
		}
	}
	for _, s := range r.Scenarios {
		err := s.validate()
		if err == nil && s.Check != nil {
			err = s.Check(s.Params)
		}
		if err != nil {
			return fmt.Errorf("scenario %s: %w", s.Name, err)
		}
	}
	return nil
}

func (p Params) validate() error {
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{p.Rollouts < 1 || p.Rollouts > 1000, fmt.Sprintf("%d rollouts: must be 1 to 1000", p.Rollouts)},
		{p.Timeout <= 0 || p.Timeout > Deadline, fmt.Sprintf("timeout %s: must be above 0 and at most %s", p.Timeout, Deadline)},
		{p.Delay < 0 || p.PreStop < 0 || p.MinReady < 0 || p.Grace < 0 || p.Hold < 0, "delay, preStop, grace, minReady and hold must not be negative"},
		{p.Delay > 10*time.Minute || p.PreStop > 10*time.Minute || p.Hold > 10*time.Minute, "delay, preStop and hold must be at most 10m"},
		{p.PreStop%time.Second != 0 || p.Grace%time.Second != 0 || p.MinReady%time.Second != 0, "preStop, grace and minReady must be whole seconds, as Kubernetes takes them"},
		{p.Grace > 0 && p.Grace < p.PreStop, fmt.Sprintf("grace %s is shorter than preStop %s: the pod would be killed before it is told", p.Grace, p.PreStop)},
	} {
		if c.bad {
			return errors.New(c.what)
		}
	}
	return nil
}

// CheckHost says in one line why this host cannot send what the run asks for, before anything
// is done.
func (r Run) CheckHost() error {
	anywhere := netip.MustParseAddrPort("127.0.0.1:80")
	for _, s := range r.Scenarios {
		if err := probe.CheckRate(probe.Config{Stream: record.Main, Target: anywhere, Rate: s.Rate, Deadline: Deadline}); err != nil {
			return err
		}
	}
	return nil
}
