// Package conformance says, for any dataplane on any cluster, which Service
// semantics hold. What it asks is in package behaviours, one per file.
//
//	plumbline conformance --dataplane=plumb-nftables --cluster=lab
//
// is Options.Run. Under Ginkgo the same run is a suite, each behaviour a spec:
//
//	go test ./suites/conformance -run '^TestConformance$' -cluster=lab -ginkgo.focus=affinity
package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/run"
	"github.com/plumbline/plumbline/suites/stage"
	"github.com/plumbline/plumbline/suites/timeouts"
)

// Options are what a run is asked for. They are for one run.
type Options struct {
	Dataplane   string
	Declaration string // a file; empty: the entry of dataplanes.yaml, if there is one
	Results     string
	Sonobuoy    bool
	SideBySide  int
	Seed        int64 // 0: one by chance
	Verbose     bool
	Screen      slog.Handler // what is said while it runs, beside the log; nil: the log itself, on standard error
	Stage       stage.Options
	Timeouts    kit.Timeouts

	FollowWithin time.Duration // how late the dataplane may follow a change

	// Behaviours are those to ask for; nil: those that the flags choose.
	Behaviours               []kit.Behaviour
	focus, skip, labelFilter string

	flags  *pflag.FlagSet // those of Flags
	repeat string         // the line that does it again; set by Enter
	said   runLog
	phases timeline
}

// New returns options with their defaults.
func New() *Options {
	o := &Options{Stage: stage.Options{Profile: "l4-fast", Workers: 4}, Timeouts: kit.DefaultTimeouts()}
	o.flags = pflag.NewFlagSet("conformance", pflag.ContinueOnError)
	fs := o.flags
	fs.StringVar(&o.Dataplane, "dataplane", "plumb-nftables", "what is tested: "+ownNames()+"kube-proxy:nftables, kube-proxy:iptables, existing or manifest:FILE")
	fs.StringVar(&o.Declaration, "declaration", "", "`file` that declares what the dataplane supports: one entry of suites/conformance/dataplanes.yaml (default: the entry there)")
	fs.StringVar(&o.Results, "results", "results", "directory for reports and evidence")
	fs.BoolVar(&o.Sonobuoy, "sonobuoy", false, "pack the report into --results when done, and tell Sonobuoy's worker, which waits there")
	fs.IntVar(&o.SideBySide, "side-by-side", 8, "behaviours that run at once, of those that disturb nobody; the few that mostly wait are beside them")
	fs.Int64Var(&o.Seed, "seed", 0, "of the order of behaviours and of what is drawn by lot (default: one by chance, which the report names)")
	fs.StringVar(&o.focus, "focus", "", "ask only for behaviours whose id this regular `expression` matches")
	fs.StringVar(&o.skip, "skip", "", "do not ask for behaviours whose id this regular `expression` matches")
	fs.StringVar(&o.labelFilter, "label-filter", "", "ask only for behaviours of these levels and profiles, such as 'MUST && Core'")
	fs.DurationVar(&o.FollowWithin, "follow-within", kit.Limit, "how late the dataplane may follow a change; what it took is in the report")
	timeouts.Var(fs, &o.Timeouts)
	o.Stage.Flags(fs)
	// Both families, or the behaviours of dual stack are left out. In front of an
	// existing cluster ours would be on this host's loopback, which no pod reaches.
	o.Stage.IPFamily, o.Stage.Foreign.LB = "dual", string(run.NoLB)
	fs.Lookup("ip-family").DefValue, fs.Lookup("lb").DefValue = o.Stage.IPFamily, o.Stage.Foreign.LB
	return o
}

// Flags are the command line's, which set the options.
func (o *Options) Flags() *pflag.FlagSet { return o.flags }

// RunLimit bounds a run of all behaviours, which takes minutes, and what comes
// before it; taking away what was brought up has limits of its own.
const RunLimit = 40 * time.Minute

// Run asks a dataplane for behaviours and writes the report. An error is the harness's;
// what was found before it is in the report all the same, and its exit code says what
// that comes to.
func (o *Options) Run(ctx context.Context) (rep conformance.Report, err error) {
	defer func() { err = errors.Join(err, o.said.close()) }()
	err = o.Enter(ctx)
	if err == nil {
		rep, err = o.judge(ctx)
		err = errors.Join(err, o.Stage.Leave(context.WithoutCancel(ctx)))
	}
	if err != nil {
		rep, err = o.unjudged(rep, err)
	}
	if o.Sonobuoy {
		err = errors.Join(err, o.Deliver(err))
	}
	return rep, err
}

// unjudged has the log and the report, if there is a place for them, say why the harness
// could not judge.
func (o *Options) unjudged(rep conformance.Report, why error) (conformance.Report, error) {
	if o.Stage.Dir == "" {
		return rep, why
	}
	fmt.Fprintln(&o.said, "conformance:", why)
	rep, err := o.amend(why)
	return rep, errors.Join(why, err)
}

// Enter refuses what contradicts itself, before anything is made, and puts this process
// where the clients of the cluster are (stage.Enter). Run does it.
func (o *Options) Enter(ctx context.Context) (err error) {
	if o.SideBySide < 1 || o.SideBySide > 64 {
		return fmt.Errorf("--side-by-side %d: must be 1 to 64", o.SideBySide)
	}
	if o.FollowWithin < time.Second || o.FollowWithin > 5*time.Minute {
		return fmt.Errorf("--follow-within=%s: must be 1s to 5m", o.FollowWithin)
	}
	if o.Stage.Rows, err = dataplaneRow(o.Dataplane); err != nil {
		return err
	}
	if _, err = o.Declared(); err != nil {
		return err
	}
	if o.Behaviours == nil {
		if o.Behaviours, err = choose(behaviours.All(), o.focus, o.skip, o.labelFilter); err != nil {
			return err
		}
	}
	if len(o.Behaviours) == 0 {
		return errors.New("no behaviour is chosen")
	}
	for o.Seed == 0 {
		o.Seed = int64(rand.Uint32())
	}
	o.repeat = o.command() // before names are given to what had none
	return stage.Enter(ctx, &o.Stage, o.Logger())
}

// choose picks behaviours by id and by labels, in Ginkgo's language of filters. None at
// all is a mistake.
func choose(all []kit.Behaviour, focus, skip, labels string) (out []kit.Behaviour, err error) {
	in, err := regexp.Compile(focus)
	if err != nil {
		return nil, fmt.Errorf("--focus: %w", err)
	}
	left, err := regexp.Compile(skip)
	if err != nil {
		return nil, fmt.Errorf("--skip: %w", err)
	}
	wanted, err := types.ParseLabelFilter(labels)
	if err != nil { // in several lines, of which the first is its heading
		return nil, fmt.Errorf("--label-filter %q: %s", labels, strings.Join(strings.Fields(err.Error()), " "))
	}
	for _, b := range all {
		if in.MatchString(b.ID) && (skip == "" || !left.MatchString(b.ID)) && wanted(Labels(b)) {
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no behaviour is chosen by --focus %q, --skip %q and --label-filter %q", focus, skip, labels)
	}
	return out, nil
}

// Labels are what a behaviour is chosen by, beside its id.
func Labels(b kit.Behaviour) []string { return []string{string(b.Level), string(b.Profile)} }

// ownNames lists our own dataplanes for a help text.
func ownNames() (list string) {
	for _, b := range cluster.Backends() {
		list += "plumb-" + b.Name + ", "
	}
	return list
}

// dataplaneRow is the row of a dataplane's name: an own one as it is meant to be.
func dataplaneRow(name string) ([]row.Row, error) {
	rows, err := row.Parse(name)
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("--dataplane %q: name one", name)
	}
	return rows, err
}

// Place makes a directory of this run's own below the results, where its log goes from
// now on.
func (o *Options) Place(kind string) (err error) {
	if o.Stage.Dir, err = o.Stage.ResultsDir(o.Results, kind); err != nil {
		return err
	}
	return o.said.open(o.Stage.Dir)
}

// evidence is where what explains a failure is kept.
func (o *Options) evidence() string { return filepath.Join(o.Stage.Dir, "evidence") }
