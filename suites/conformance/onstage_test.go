package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/run"
	"github.com/plumbline/plumbline/suites/stage"
)

// brokenStage has an API that does not answer; it says how a dataplane was removed.
type brokenStage struct {
	stage.Stage
	removed []error // of the context that it was removed with
}

func (s *brokenStage) Kind() string { return "existing" }

func (s *brokenStage) Run() cluster.Run { return "broken-aaaaa" }

func (s *brokenStage) Cluster() cluster.Cluster { return brokenCluster{} }

func (s *brokenStage) LB() run.LB { return noLB{} }

func (s *brokenStage) Install(context.Context, row.Row) (string, func(context.Context) error, error) {
	return "v1", func(ctx context.Context) error {
		s.removed = append(s.removed, ctx.Err())
		return errors.New("it clings")
	}, nil
}

type brokenCluster struct{ cluster.Cluster }

func (brokenCluster) Nodes(context.Context) ([]cluster.Node, error) {
	return nil, errors.New("the API does not answer")
}

// openCluster answers, with no node.
type openCluster struct {
	cluster.Cluster
	config *rest.Config
}

func (c openCluster) RESTConfig() *rest.Config { return c.config }

func (openCluster) Nodes(context.Context) ([]cluster.Node, error) { return nil, nil }

type noLB struct{ run.LB }

func (noLB) Profile() report.LB { return report.LB{} }

// TestRemovedOnEveryPath: what was installed is removed whatever failed or ended after
// it, and the report says all of it.
func TestRemovedOnEveryPath(t *testing.T) {
	for name, tc := range map[string]struct {
		limit time.Duration
		want  []string
		tests int // the removal's
	}{
		"the environment fails": {time.Hour, []string{"the API does not answer", "it clings"}, 1},
		"the time is over":      {-1, []string{"the suite did not end within -1ns", "it clings"}, 0},
	} {
		o := New()
		o.Seed, o.Stage.Rows = 7, []row.Row{{Dataplane: row.Existing}}
		ctx, cancel := Limited(t.Context(), tc.limit)
		st := &brokenStage{}
		rep, err := o.onStage(ctx, st, Declared{}, slog.Default())
		cancel()
		if len(st.removed) != 1 || st.removed[0] != nil {
			t.Errorf("%s: removed %d times, with contexts that say %v", name, len(st.removed), st.removed)
		}
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q in it", name, err, want)
			}
		}
		if got := o.phases.until(time.Now()); len(got) != 2 || got[0].Name != "dataplane installed" || got[1].Name != "dataplane removed" {
			t.Errorf("%s: phases %v", name, got)
		}
		if rep.Implementation.Version != "v1" || rep.Seed != 7 || len(rep.Tests) != tc.tests || rep.Chosen != 1 || rep.Of != len(behaviours.All())+1 {
			t.Errorf("%s: report of version %q, seed %d, %d tests, %d of %d", name, rep.Implementation.Version, rep.Seed, len(rep.Tests), rep.Chosen, rep.Of)
		}
	}
}

// TestDescribe: what was installed, and where, is in the report.
func TestDescribe(t *testing.T) {
	config, err := clientcmd.RESTConfigFromKubeConfig(api.ForTest(t, api.Config{}).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	st := openStage{config: config}
	rep := conformance.Report{Implementation: conformance.Implementation{Project: "x"}}
	if err := New().describe(t.Context(), digestStage{st}, &rep); err == nil || err.Error() != "no digests" {
		t.Errorf("without digests: %v", err)
	}
	if err := New().describe(t.Context(), st, &rep); err != nil {
		t.Fatal(err)
	}
	want := conformance.Implementation{Project: "x", ConfigDigest: "sha256:c", Images: []string{"i@sha256:1"}}
	if got := time.Duration(rep.Environment.FollowWithin); got != kit.Limit {
		t.Errorf("it was to follow within %s, want %s", got, kit.Limit)
	}
	if d := cmp.Diff(want, rep.Implementation); d != "" || rep.Environment.NodeImage != "node@sha256:2" {
		t.Errorf("node image %q; (-want +got)\n%s", rep.Environment.NodeImage, d)
	}
}

// openStage is a stage whose API answers and has nothing; digestStage knows no digest.
type (
	openStage struct {
		stage.Stage
		config *rest.Config
	}
	digestStage struct{ openStage }
)

func (openStage) Kind() string { return "lab" }

func (openStage) LB() run.LB { return noLB{} }

func (openStage) Run() cluster.Run { return "open-aaaaa" }

func (s openStage) Cluster() cluster.Cluster { return openCluster{config: s.config} }

func (openStage) Digests(context.Context) (stage.Digests, error) {
	return stage.Digests{Config: "sha256:c", Images: []string{"i@sha256:1"}}, nil
}

func (openStage) NodeImage(context.Context) (string, error) { return "node@sha256:2", nil }

func (digestStage) Digests(context.Context) (stage.Digests, error) {
	return stage.Digests{}, errors.New("no digests")
}

// TestTimeline: one phase ends where the next begins, and the last one now.
func TestTimeline(t *testing.T) {
	var l timeline
	at := time.Now()
	if got := l.until(at); len(got) != 0 {
		t.Errorf("before any phase: %v", got)
	}
	l.nextAt(at, "a")
	l.nextAt(at.Add(2*time.Second), "b")
	second := conformance.Duration(time.Second)
	want := []conformance.Phase{{Name: "a", Start: 0, Duration: 2 * second}, {Name: "b", Start: 2 * second, Duration: 3 * second}}
	for range 2 { // asking changes nothing
		if d := cmp.Diff(want, l.until(at.Add(5*time.Second))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

// TestRunLog: what was said before there was a report's folder is in the log too.
func TestRunLog(t *testing.T) {
	stderr := os.Stderr // of the run itself, in which this is no news
	t.Cleanup(func() { os.Stderr = stderr })
	silent, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	os.Stderr = silent
	o := New()
	o.Results = t.TempDir()
	o.Logger().Info("first")
	if err := o.Place("x"); err != nil {
		t.Fatal(err)
	}
	defer o.said.file.Close()
	o.Logger().Info("second")
	o.unjudged(conformance.Report{}, errors.New("third"))
	b, err := os.ReadFile(filepath.Join(o.Stage.Dir, "e2e.log"))
	if lines := strings.Split(string(b), "\n"); err != nil || len(lines) != 4 || !strings.Contains(lines[0], "first") || !strings.Contains(lines[1], "second") || lines[2] != "conformance: third" {
		t.Errorf("%v, %q", err, b)
	}
	o.Results = filepath.Join(o.Stage.Dir, "e2e.log") // a file
	if err := o.Place("x"); err == nil || !strings.Contains(err.Error(), "write the log of the run") {
		t.Errorf("below a file: %v", err)
	}
}

// TestKeepResidue: all that was left is in a file that the result names.
func TestKeepResidue(t *testing.T) {
	dir := t.TempDir()
	removed := fmt.Errorf("remove x: %w", &cluster.Residue{Left: map[string][]string{"w": {"one", "two"}}})
	r := kit.Result{Behaviour: behaviours.RemovedLeavesNothing()}
	keepResidue(dir, errors.New("agents do not stop"), &r)
	keepResidue("", removed, &r)
	if len(r.Evidence) != 0 {
		t.Errorf("kept: %q", r.Evidence)
	}
	keepResidue(dir, removed, &r)
	evidence := test(r).Evidence
	if len(evidence) != 1 || len(r.Said) != 0 {
		t.Fatalf("evidence %q, said %q", evidence, r.Said)
	}
	if b, err := os.ReadFile(filepath.Join(dir, evidence[0])); err != nil || string(b) != "node w\n\tone\n\ttwo\n" {
		t.Errorf("%v, %q", err, b)
	}
	r = kit.Result{Behaviour: behaviours.RemovedLeavesNothing()}
	keepResidue(filepath.Join(dir, evidence[0]), removed, &r) // a file
	if len(r.Evidence) != 0 || len(r.Said) != 1 {
		t.Errorf("not kept: evidence %q, said %q", r.Evidence, r.Said)
	}
}

// TestStreams: they are in the report as they were measured.
func TestStreams(t *testing.T) {
	got := test(kit.Result{Streams: []kit.Stream{{
		Client: "c", Target: "t", Rate: 50, Sent: 500, Failed: 3, Outages: []kit.Outage{{Start: time.Second, Length: 60 * time.Millisecond, Failed: 3}},
		P50: time.Millisecond + 3, P99: 4 * time.Millisecond, Max: 9 * time.Millisecond,
	}}}).Streams
	ms := conformance.Duration(time.Millisecond)
	want := []conformance.Stream{{
		Client: "c", Target: "t", Rate: 50, Sent: 500, Failed: 3, Outages: []conformance.Outage{{Start: 1000 * ms, Length: 60 * ms, Failed: 3}},
		P50: ms, P99: 4 * ms, Max: 9 * ms,
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestCheckPath: the report names the path that our load balancers really ask.
func TestCheckPath(t *testing.T) {
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}}}}
	lb, err := lbplan.Build(svc, nil)
	if err != nil || lb.Check.Path != balancer(report.LB{Interval: report.Duration(time.Second), Path: lbplan.CheckPath}).Path {
		t.Errorf("%v: the path is %q", err, lb.Check.Path)
	}
}

// TestAmend: the exit status is what the report says once it says how the run ended.
func TestAmend(t *testing.T) {
	for want, result := range map[int]conformance.Result{2: conformance.Pass, 1: conformance.Fail} {
		o := New()
		o.Stage.Dir = filepath.Join(t.TempDir(), "run")
		r := conformance.Report{Chosen: 1, Of: 1, Tests: []conformance.Test{{ID: "a", Level: conformance.Must, Result: result, Reason: "because"}}}
		if err := conformance.Write(o.Stage.Dir, r); err != nil {
			t.Fatal(err)
		}
		amended, err := o.amend(errors.New("delete namespace x: no"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := conformance.Read(o.Stage.Dir)
		if err != nil || got.Error != "delete namespace x: no" || got.ExitCode != amended.ExitCode || got.ExitCode != want {
			t.Errorf("%s: %v, exit status %d, want %d; the report says %d, error %q", result, err, amended.ExitCode, want, got.ExitCode, got.Error)
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
		args []string
		want string
	}{
		"nothing": {nil, "plumbline conformance --cluster=kind --dataplane=plumb-nftables --seed=7"},
		"flags": {
			[]string{"--cluster=existing", "--dataplane=manifest:/srv/a/cilium.yaml", "--results=/tmp/x", "--kubeconfig=/srv/a/config", "--ip-family=ipv4", "--echo-image=r/echo:1", "--side-by-side=2"},
			"plumbline conformance --cluster=existing --dataplane=manifest:cilium.yaml --seed=7 --echo-image=r/echo:1 --ip-family=ipv4 --kubeconfig=config --side-by-side=2",
		},
		"focus": {
			[]string{"--workers=5", "--focus=affinity|it's$", "--skip=udp", "--label-filter=MUST && Core"},
			`plumbline conformance --cluster=kind --dataplane=plumb-nftables --seed=7 '--focus=affinity|it'\''s$' '--label-filter=MUST && Core' --skip=udp --workers=5`,
		},
	} {
		o := New()
		if err := o.Flags().Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		o.Seed, o.Behaviours = 7, behaviours.All()
		if got := o.command(); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tc.want)
		}
	}
	o := New()
	o.Seed, o.Behaviours = 7, behaviours.All()[:2]
	if got, want := o.command(), fmt.Sprintf("'--focus=^(%s|%s)$'", o.Behaviours[0].ID, o.Behaviours[1].ID); !strings.HasSuffix(got, want) {
		t.Errorf("chosen by a caller:\n%s\nwant at its end\n%s", got, want)
	}
}

// TestNothingChosen: a caller's empty choice is not everything.
func TestNothingChosen(t *testing.T) {
	o := New()
	o.Behaviours, o.Stage.Cluster = []kit.Behaviour{}, "none" // nothing comes up however this goes
	if _, err := o.Run(t.Context()); err == nil || err.Error() != "no behaviour is chosen" || o.Stage.Dir != "" {
		t.Errorf("%v, results in %q", err, o.Stage.Dir)
	}
}

// TestFollowWithin: what nobody can follow, and what nobody would wait for, is a mistake.
func TestFollowWithin(t *testing.T) {
	for _, given := range []string{"0s", "-1s", "10ms", "1h"} {
		o := New()
		o.Stage.Cluster = "none" // nothing comes up however this goes
		if err := o.Flags().Set("follow-within", given); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--follow-within=") || o.Stage.Dir != "" {
			t.Errorf("%s: %v, results in %q", given, err, o.Stage.Dir)
		}
	}
}

// TestChoose: by id and by labels, and none is a mistake.
func TestChoose(t *testing.T) {
	for name, tc := range map[string]struct{ focus, skip, labels, want string }{
		"by id":          {"^hcnp-body$|^clusterip-udp$", "", "", "clusterip-udp hcnp-body"},
		"but":            {"^hcnp-b|^hcnp-a", "path", "", "hcnp-after-rules hcnp-body"},
		"by labels":      {"-body$", "", "SHOULD && Health", "hcnp-body healthz-body"},
		"none":           {"^x$", "", "", "no behaviour is chosen"},
		"no expression":  {"(", "", "", "--focus: error parsing regexp"},
		"nor to skip":    {"", "(", "", "--skip: error parsing regexp"},
		"nor for labels": {"", "", "MUST &&", `--label-filter "MUST &&": `},
	} {
		list, err := choose(behaviours.All(), tc.focus, tc.skip, tc.labels)
		var ids []string
		for _, b := range list {
			ids = append(ids, b.ID)
		}
		switch {
		case err != nil && (!strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		case err == nil && strings.Join(ids, " ") != tc.want:
			t.Errorf("%s: %q, want %q", name, ids, tc.want)
		}
	}
}
