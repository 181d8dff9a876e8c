package conformance

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

// brokenStage has an API that does not answer; it says how a dataplane was removed.
type brokenStage struct {
	stage.Stage
	removed []error // of the context that it was removed with
}

func (s *brokenStage) Kind() string { return "existing" }

func (s *brokenStage) Cluster() cluster.Cluster { return brokenCluster{} }

func (s *brokenStage) LB() scenario.LB { return noLB{} }

func (s *brokenStage) Install(context.Context, scenario.Row) (string, func(context.Context) error, error) {
	return "v1", func(ctx context.Context) error {
		s.removed = append(s.removed, ctx.Err())
		return errors.New("it clings")
	}, nil
}

type brokenCluster struct{ cluster.Cluster }

func (brokenCluster) Nodes(context.Context) ([]cluster.Node, error) {
	return nil, errors.New("the API does not answer")
}

type noLB struct{ scenario.LB }

func (noLB) Profile() report.LB { return report.LB{} }

// TestRemovedOnEveryPath: what was installed is removed whatever failed or ended after
// it, and the report says all of it.
func TestRemovedOnEveryPath(t *testing.T) {
	before := opts.stage.Rows
	t.Cleanup(func() { opts.stage.Rows = before })
	opts.stage.Rows = []scenario.Row{{Dataplane: scenario.Existing}}
	for name, tc := range map[string]struct {
		limit time.Duration
		want  []string
		tests int // the removal's
	}{
		"the environment fails": {time.Hour, []string{"the API does not answer", "it clings"}, 1},
		"the time is over":      {-1, []string{"the suite did not end within -1ns", "it clings"}, 0},
	} {
		ctx, cancel := limited(t.Context(), tc.limit)
		st := &brokenStage{}
		rep, err := onStage(ctx, st, declared{}, nil, 7, slog.Default())
		cancel()
		if len(st.removed) != 1 || st.removed[0] != nil {
			t.Errorf("%s: removed %d times, with contexts that say %v", name, len(st.removed), st.removed)
		}
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q in it", name, err, want)
			}
		}
		if rep.Implementation.Version != "v1" || rep.Seed != 7 || len(rep.Tests) != tc.tests || rep.Chosen != 1 || rep.Of != len(registry.All())+1 {
			t.Errorf("%s: report of version %q, seed %d, %d tests, %d of %d", name, rep.Implementation.Version, rep.Seed, len(rep.Tests), rep.Chosen, rep.Of)
		}
	}
}

// TestAmend: the exit status is what the report says once it says how the run ended.
func TestAmend(t *testing.T) {
	for want, result := range map[int]conformance.Result{2: conformance.Pass, 1: conformance.Fail} {
		o := options{stage: stage.Options{Dir: filepath.Join(t.TempDir(), "run")}}
		r := conformance.Report{Chosen: 1, Of: 1, Tests: []conformance.Test{{ID: "a", Level: conformance.Must, Result: result, Reason: "because"}}}
		if err := conformance.Write(o.stage.Dir, r); err != nil {
			t.Fatal(err)
		}
		code, err := o.amend(errors.New("delete namespace x: no"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := conformance.Read(o.stage.Dir)
		if err != nil || got.Error != "delete namespace x: no" || got.ExitCode != code || code != want {
			t.Errorf("%s: %v, exit status %d, want %d; the report says %d, error %q", result, err, code, want, got.ExitCode, got.Error)
		}
	}
}

func TestSystems(t *testing.T) {
	node := func(kernel, os string) (n corev1.Node) {
		n.Status.NodeInfo = corev1.NodeSystemInfo{KernelVersion: kernel, OSImage: os}
		return n
	}
	kernel, os := systems([]corev1.Node{node("6.12.1", "Debian 13"), node("6.1.0", "Debian 13"), node("6.12.1", "Debian 13")})
	if kernel != "6.1.0, 6.12.1" || os != "Debian 13" {
		t.Errorf("kernels %q, operating systems %q", kernel, os)
	}
}

// TestCommand: the line has what was set, and no path of this host.
func TestCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		suite types.SuiteConfig
		want  string
	}{
		"nothing": {nil, types.SuiteConfig{}, "make conformance DATAPLANE=plumb-nftables CLUSTER=kind CONFORMANCE='--ginkgo.seed=7'"},
		"flags": {
			[]string{"--cluster=existing", "--dataplane=manifest:/srv/a/cilium.yaml", "--results=/tmp/x", "--kubeconfig=/srv/a/config", "--ip-family=ipv4", "--echo-image=r/echo:1", "--side-by-side=2"},
			types.SuiteConfig{},
			"make conformance DATAPLANE=manifest:cilium.yaml CLUSTER=existing CONFORMANCE='--ginkgo.seed=7 --echo-image=r/echo:1 --ip-family=ipv4 --kubeconfig=config --side-by-side=2'",
		},
		"focus": {
			[]string{"--workers=5"}, types.SuiteConfig{FocusStrings: []string{"affinity|it's$"}, SkipStrings: []string{"udp"}, LabelFilter: "MUST && Core"},
			`make conformance DATAPLANE=plumb-nftables CLUSTER=kind CONFORMANCE='--ginkgo.seed=7 "--ginkgo.focus=affinity|it'\''s\$$" --ginkgo.skip=udp "--ginkgo.label-filter=MUST && Core" --workers=5'`,
		},
	} {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		o := options{}
		o.define(fs)
		if err := fs.Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		if got := command(fs, tc.suite, 7); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tc.want)
		}
	}
}
