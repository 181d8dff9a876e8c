package scenario

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/timeouts"
)

// catalog holds the scenarios by name.
func catalog() map[string]Scenario {
	base := Scenario{
		Name: "rolling-update", Title: "rolling update under externalTrafficPolicy=Local",
		Rollouts: 3, Rate: 100, Timeout: 2500 * time.Millisecond, Delay: 12 * time.Second,
		Profile: "l4-strict", Seed: 1, Rows: row.Default(),
		Timeouts: DefaultTimeouts(),
	}
	out := map[string]Scenario{base.Name: base}
	// E1-E3 of the owner's documents: one probe a second, 500 ms patience, the
	// app serves 30 s after SIGTERM, HAProxy's defaults.
	for name, e := range map[string]struct {
		title string
		row   row.Row
	}{
		"e1": {"terminating endpoints removed at once, no local endpoint dropped (kube-proxy before 1.26)", row.Own("nftables", "ignore", "drop")},
		"e2": {"serving, terminating endpoints kept as fallback (KEP-1669)", row.Own("nftables", "fallback", "drop")},
		"e3": {"terminating endpoints removed at once, no local endpoint rejected (Cilium without the fallback)", row.Own("nftables", "ignore", "reject")},
	} {
		s := base
		s.Name, s.Title, s.Rows = name, e.title, []row.Row{e.row}
		s.Rollouts, s.Rate, s.Timeout, s.Delay = 1, 1, 500*time.Millisecond, 30*time.Second
		s.Profile, s.Anecdote = "seed", true
		out[name] = s
	}
	return out
}

// Find returns a scenario by name.
func Find(name string) (Scenario, error) {
	all := catalog()
	s, ok := all[name]
	if !ok {
		return Scenario{}, fmt.Errorf("unknown scenario %q; known: %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return s, nil
}

// Flags lets the command line change a scenario.
func (s *Scenario) Flags(fs *flag.FlagSet) {
	fs.IntVar(&s.Rollouts, "rollouts", s.Rollouts, "rollouts that count, per row")
	fs.Float64Var(&s.Rate, "rate", s.Rate, "new connections per second")
	fs.DurationVar(&s.Timeout, "timeout", s.Timeout, "the client's patience: an answer later than this is a loss")
	fs.DurationVar(&s.Delay, "delay", s.Delay, "how long the app serves after SIGTERM")
	fs.DurationVar(&s.PreStop, "prestop", s.PreStop, "preStop sleep before SIGTERM")
	fs.DurationVar(&s.Grace, "grace", s.Grace, "terminationGracePeriodSeconds (default: preStop + delay + 10s)")
	fs.DurationVar(&s.MinReady, "min-ready", s.MinReady, "minReadySeconds of the Deployment")
	fs.BoolVar(&s.Unready, "unready-on-sigterm", s.Unready, "the app fails its readiness on SIGTERM")
	fs.StringVar(&s.Profile, "profile", s.Profile, "load balancer: "+profile.Usage())
	fs.IntVar(&s.Background.Pods, "background-pods", s.Background.Pods, "pods that run beside the workload")
	fs.IntVar(&s.Background.Services, "background-services", s.Background.Services, "Services beside the workload's, of ten endpoints each")
	timeouts.Var(fs, &s.Timeouts)
	fs.IntVar(&s.MaxLost, "max-lost", s.MaxLost, "requests that a row which is judged may lose in all")
	fs.Uint64Var(&s.Seed, "seed", s.Seed, "of arrivals and phases")
}
