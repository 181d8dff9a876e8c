package scenario

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/lbprovider/profile"
)

// rows are the dataplanes that can be asked for, by the name the CLI uses.
func rows() map[string]Row {
	out := map[string]Row{
		Existing:              {Dataplane: Existing},
		"kube-proxy:nftables": {Dataplane: "kube-proxy", Mode: "nftables"},
		"kube-proxy:iptables": {Dataplane: "kube-proxy", Mode: "iptables"},
	}
	for _, b := range cluster.Backends() {
		name := "plumb-" + b.Name
		out[name+":fallback"] = Row{name, b.Name, "fallback", "drop"}
		out[name+":ignore+drop"] = Row{name, b.Name, "ignore", "drop"}
		out[name+":ignore+reject"] = Row{name, b.Name, "ignore", "reject"}
	}
	return out
}

// DefaultRows is the default matrix, in the order it runs: what the fallback cures is shown
// with the first of our own.
func DefaultRows() string {
	var out []string
	for i, b := range cluster.Backends() {
		out = append(out, "plumb-"+b.Name+":fallback")
		if i == 0 {
			out = append(out, "plumb-"+b.Name+":ignore+drop", "plumb-"+b.Name+":ignore+reject")
		}
	}
	return strings.Join(append(out, "kube-proxy:nftables", "kube-proxy:iptables"), ",")
}

// ParseRows reads a comma-separated list of row names; "all" is the default matrix.
func ParseRows(list string) ([]Row, error) {
	if list == "all" {
		list = DefaultRows()
	}
	known := rows()
	var out []Row
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		r, ok := known[name]
		if file, is := strings.CutPrefix(name, "manifest:"); is && file != "" {
			r, ok = Row{Dataplane: Manifest, Mode: file}, true
		}
		if !ok {
			return nil, fmt.Errorf("unknown dataplane row %q; known: %s, manifest:FILE", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if slices.Contains(out, r) {
			return nil, fmt.Errorf("dataplane row %q is named twice", name)
		}
		out = append(out, r)
	}
	return out, nil
}

// catalog holds the scenarios by name.
func catalog() map[string]Scenario {
	base := Scenario{
		Name: "rolling-update", Title: "rolling update under externalTrafficPolicy=Local",
		Rollouts: 3, Rate: 100, Timeout: 2500 * time.Millisecond, Delay: 12 * time.Second,
		Profile: "l4-strict", Seed: 1,
	}
	all := rows()
	for _, name := range strings.Split(DefaultRows(), ",") {
		base.Rows = append(base.Rows, all[name])
	}
	out := map[string]Scenario{base.Name: base}
	// E1-E3 of the owner's documents: one probe a second, 500 ms patience, the
	// app serves 30 s after SIGTERM, HAProxy's defaults.
	for name, e := range map[string]struct{ title, row string }{
		"e1": {"terminating endpoints removed at once, no local endpoint dropped (kube-proxy before 1.26)", "plumb-nftables:ignore+drop"},
		"e2": {"serving, terminating endpoints kept as fallback (KEP-1669)", "plumb-nftables:fallback"},
		"e3": {"terminating endpoints removed at once, no local endpoint rejected (Cilium without the fallback)", "plumb-nftables:ignore+reject"},
	} {
		s := base
		s.Name, s.Title, s.Rows = name, e.title, []Row{all[e.row]}
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
	fs.Uint64Var(&s.Seed, "seed", s.Seed, "of arrivals and phases")
}
