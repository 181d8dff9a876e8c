package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/timeline"
	"github.com/plumbline/plumbline/suites/verdict"
	"github.com/plumbline/plumbline/suites/verdict/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, d)
	}
}

// evil is what an object's name may hold once it is text in a report.
const evil = "x\"'><script>alert(1)</script>|`*\x1b[31m\n#"

func ptr(f float64) *float64 { return &f }

// rollout is a small one: a point per class, states of two nodes.
func rollout(number, lost int) verdict.Rollout {
	v := verdict.Rollout{
		Number: number, Valid: true, Sent: 2000, Lost: lost, Slow: 1, FromTerminating: 4,
		Classes: map[verdict.Class]int{verdict.OK: 1999 - lost, verdict.OKSlow: 1},
		Causes:  map[verdict.Cause]int{},
		Latency: verdict.Quantiles{N: 2000 - lost, P50: 0.002, P90: 0.003, P99: 0.01, Max: 0.3},
		Harness: verdict.Harness{Late: verdict.Quantiles{N: 2000, P99: 0.0014}, ControlSent: 400, Connected: 2000, Joined: 2000},
		Reconstruction: verdict.Reconstruction{
			Possible: true, Lost: 0.995 * float64(lost), DeadNode: 0.995 * float64(lost), Residual: 0.005 * float64(lost), Within: true,
		},
		Sensitivity: []verdict.AtTimeout{{Timeout: 0.5, Lost: lost + 1}, {Timeout: 10, Lost: lost, Slow: 1, Censored: lost}},
		Observed:    verdict.Observed{OldNode: "n1", NewNode: "n2", HCNPDown: ptr(0.2), LBDown: ptr(5.2), HCNPUp: ptr(0.15), LBUp: ptr(1.2), Gone: ptr(12), Removal: ptr(5), Admission: ptr(1.05)},
		Series: verdict.Series{From: -5, To: 15, Changes: []verdict.Change{
			{T: -6, Kind: record.KindPod, State: "ready", Node: "n1", Pod: evil},
			{T: -6, Kind: record.KindServer, State: "UP", Node: "n1"},
			{T: -6, Kind: record.KindServer, State: "DOWN", Node: "n2"},
			{T: -6, Kind: record.KindHCNP, State: "200", Node: "n1"},
			{T: -6, Kind: record.KindEndpoint, State: "ready,serving", Node: "n1", Pod: "echo-old"},
			{T: 0, Kind: record.KindPod, State: "deleting", Node: "n1", Pod: evil},
			{T: 0.1, Kind: record.KindEndpoint, State: "serving,terminating", Node: "n1", Pod: "echo-old"},
			{T: 0.2, Kind: record.KindNodePort, State: "TIMEOUT", Node: "n1"},
			{T: 0.2, Kind: record.KindHCNP, State: "503", Node: "n1"},
			{T: 1.2, Kind: record.KindServer, State: "UP", Node: "n2"},
			{T: 5.2, Kind: record.KindServer, State: "DOWN", Node: "n1"},
			{T: 12, Kind: record.KindPod, State: "gone", Node: "n1", Pod: evil},
		}},
	}
	for i, c := range []verdict.Class{verdict.OK, verdict.OKFromTerminating, verdict.OKSlow} {
		v.Series.Points = append(v.Series.Points, verdict.Point{T: float64(i), Class: c, Node: "n1"})
	}
	if lost > 0 {
		v.Classes[verdict.RespTimeout], v.Classes[verdict.EOFBeforeResp] = lost-1, 1
		v.Causes[verdict.CauseLagPodAlive], v.Causes[verdict.CauseNoServer] = lost-1, 1
		v.NodeWindows = []verdict.Window{{Node: "n1", Start: 0.2, End: 5.19, OuterStart: 0.19, OuterEnd: 5.2, Lost: lost, Of: lost, Classes: map[verdict.Class]int{}}}
		v.Outages = []verdict.Window{{Start: 0.2, End: 1.19, Lost: 100, Of: 100, Classes: map[verdict.Class]int{}}}
		v.LongestWindow, v.LongestOutage = 4.99, 0.99
		for i, c := range []verdict.Class{verdict.RespTimeout, verdict.EOFBeforeResp, verdict.BadBody, verdict.NotSent} {
			v.Series.Points = append(v.Series.Points, verdict.Point{T: 0.2 + float64(i), Class: c, Node: []string{"n1", ""}[i%2]})
		}
	}
	return v
}

func predicted(k int, mean, low, high float64) *model.Prediction {
	return &model.Prediction{Rollouts: k, Mean: mean, Band999: model.Band{Low: low, High: high}}
}

// sample is a run of the usual rows.
func sample() Summary {
	bad := rollout(2, 3)
	bad.Valid, bad.Reasons = false, []string{"probes were late: p99 14.0 ms, limit 10.0 ms"}
	warned := rollout(3, 310)
	warned.Warnings = []string{"one probe was 140 ms late"}
	warned.Reconstruction.Within, warned.Reconstruction.Residual, warned.Reconstruction.Unexplained = false, 12, 14.5
	warned.SlowCauses = map[verdict.Cause]int{verdict.CauseSrvSilent: 1}
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return Summary{
		Started: start, Finished: start.Add(9 * time.Minute),
		Environment: Environment{OS: "Debian 13", Kernel: "6.12.9", CPUs: 2, MemoryMiB: 7900, Kubernetes: "v1.36.3", Nodes: 3, IPFamily: "ipv4", Cluster: "kind", UsedMiB: 512, NodeImage: "plumbline/node:v1.36.3-c10f53d4ee3e@sha256:" + strings.Repeat("0123456789abcdef", 4)},
		LB: LB{
			Kind: "haproxy 3.0 (mode tcp)", Profile: "l4-strict", Path: "/healthz", Interval: Duration(2 * time.Second), Fall: 3, Rise: 1,
			Connect: Duration(5 * time.Second), Client: Duration(time.Minute), Server: Duration(time.Minute), Balance: "roundrobin",
		},
		Scenarios: []Scenario{{
			Name: "rolling-update", Title: "a rolling update under externalTrafficPolicy=Local", Model: SingleReplica,
			Latencies: Latencies{Propagation: Duration(60 * time.Millisecond), Controller: Duration(40 * time.Millisecond), Kubelet: Duration(50 * time.Millisecond)},
			Promises:  []Promise{{Of: OfFallback}, {Of: OfIgnore, Band: true}},
			Settings:  Settings{Rate: 100, Timeout: Duration(2500 * time.Millisecond), Deadline: Duration(10 * time.Second), Delay: Duration(12 * time.Second), Grace: Duration(time.Minute), Seed: 1, Rollouts: 2},
			Rows: []Row{
				{Name: "plumb-nftables fallback", Dataplane: "plumb-nftables", Own: true, Judged: true, Mode: Fallback, Wanted: 2,
					Rollouts: []verdict.Rollout{rollout(1, 0), rollout(3, 0)}, Invalid: []verdict.Rollout{bad}, Predicted: predicted(2, 0, 0, 0)},
				{Name: "plumb-nftables ignore+drop", Records: "02-plumb-nftables-ignore-drop", Dataplane: "plumb-nftables", Own: true, Mode: Ignore, NoLocal: "drop", Wanted: 2,
					Rollouts: []verdict.Rollout{rollout(1, 280), warned}, Predicted: predicted(2, 601, 412.3, 790)},
				{Name: "kube-proxy " + evil, Dataplane: "kube-proxy", Mode: Fallback, Wanted: 2,
					Rollouts: []verdict.Rollout{rollout(1, 3), rollout(2, 0)}, Sequence: "1 echo-a\n2 timeout\x1b[2J\n"},
				{Name: "kube-proxy iptables", Dataplane: "kube-proxy", Mode: Fallback, Wanted: 2, Error: "install kube-proxy: pods not ready"},
				{Name: "plumb-userspace fallback", Dataplane: "plumb-userspace", Own: true, Judged: true, Mode: Fallback, Wanted: 2, Unsupported: "this kernel lacks nftables tproxy"},
			},
		}},
	}
}

// first is a summary's scenario.
func first(s Summary) *Scenario { return &s.Scenarios[0] }

func TestTableGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, Complete(sample()), Form{Wide: true}); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.Bytes())
	if strings.ContainsRune(b.String(), '\x1b') {
		t.Error("an object's name reaches the terminal with its control characters")
	}
}

func TestFilesGolden(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "results")
	if err := Write(dir, sample()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{SummaryFile, JUnitFile, MarkdownFile, HTMLFile} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, b)
	}
	got, err := Read(filepath.Join(dir, SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Complete(sample()), got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("summary.json does not hold the summary (-want +got):\n%s", d)
	}
}

func TestReadRefusesOthers(t *testing.T) {
	for name, text := range map[string]string{
		"other version": `{"apiVersion":"plumbline.io/v2","kind":"DisruptionReport"}`,
		"other kind":    `{"apiVersion":"plumbline.io/v1alpha1","kind":"Pod"}`,
		"no JSON":       `{`,
	} {
		path := filepath.Join(t.TempDir(), SummaryFile)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestNothingEscapes: no rendering lets an object's text become markup.
func TestNothingEscapes(t *testing.T) {
	page, err := html(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"<script", "http://", "src=", "@import"} {
		if strings.Contains(strings.ReplaceAll(string(page), `xmlns="http://www.w3.org/2000/svg"`, ""), s) {
			t.Errorf("report.html contains %s", s)
		}
	}
	if strings.Contains(string(markdown(sample())), "<script") {
		t.Error("report.md contains a live <script")
	}
	j, err := junit(sample())
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, "junit.xml", j)
}

func TestSVGWellFormed(t *testing.T) {
	page, err := html(sample())
	if err != nil {
		t.Fatal(err)
	}
	for rest := string(page); ; {
		_, after, ok := strings.Cut(rest, "<svg")
		if !ok {
			break
		}
		svg, tail, ok := strings.Cut(after, "</svg>")
		if !ok {
			t.Fatal("an svg that does not end")
		}
		wellFormed(t, "svg", []byte("<svg"+svg+"</svg>"))
		rest = tail
	}
	if n := strings.Count(string(page), `aria-label="time line of rollout`); n != 7 {
		t.Errorf("%d drawings, want one for each of 7 rollouts", n)
	}
}

func wellFormed(t *testing.T, what string, b []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestDrawing: lanes stand below their node, what was lost is marked there and named, and the
// wanted state alone has a colour.
func TestDrawing(t *testing.T) {
	d := draw(rollout(1, 300))
	var labels, heads []string
	for _, l := range d.Lanes {
		labels = append(labels, l.Label)
	}
	for _, h := range d.Heads {
		heads = append(heads, h.Text)
	}
	if diff := cmp.Diff([]string{"n1", "n2", "no node"}, heads); diff != "" {
		t.Errorf("heads (-want +got):\n%s", diff)
	}
	want := []string{"pod", "node", "health check", "balancer", "requests", "balancer", "requests"}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	// 20 s over 860: t=0 is a quarter of the way, the balancer gives n1 up at 5.2 s.
	if d.Zero != "345.0" {
		t.Errorf("t=0 at %s", d.Zero)
	}
	wantBars := []bar{
		{X: "130.0", W: "438.6", Class: "good", Text: "UP: sends here", Title: "UP: sends here from -6.00 s"},
		{X: "568.6", W: "421.4", Class: "idle", Text: "DOWN", Title: "DOWN from 5.20 s"},
	}
	if diff := cmp.Diff(wantBars, d.Lanes[3].Bars); diff != "" {
		t.Errorf("balancer n1 (-want +got):\n%s", diff)
	}
	if len(d.Gaps) == 0 || !strings.Contains(d.Gaps[0].Text, "300 of 300 lost in ") || !strings.HasSuffix(d.Gaps[0].Text, ": the balancer still sends, the node does not forward") {
		t.Errorf("gaps %+v", d.Gaps)
	}
	if !strings.HasPrefix(d.Label, "time line of rollout 1: 300 of ") || len(d.Told) < 6 {
		t.Errorf("in words: %q, %q", d.Label, d.Told)
	}
	if draw(verdict.Rollout{}) != nil {
		t.Error("a rollout without attempts has a drawing")
	}
}

// TestExitCode is the rule by which a run passes, row by row.
func TestExitCode(t *testing.T) {
	own := func(m Mode, lost ...int) Row {
		r := Row{Name: "own", Own: true, Judged: m == Fallback, Mode: m, Wanted: len(lost)}
		for i, n := range lost {
			r.Rollouts = append(r.Rollouts, rollout(i+1, n))
		}
		return r
	}
	with := func(r Row, edit func(*Row)) Row { edit(&r); return r }
	band := func(k int, low float64) func(*Row) {
		return func(r *Row) { r.Predicted = predicted(k, 300, low, 400) }
	}
	base := func(r *Row) { r.Own, r.Judged = false, false }
	declared := func(r *Row) { r.Own = false } // by whoever answers for it
	slow := func(n int) func(*Row) {           // of 2000
		return func(r *Row) { r.Rollouts[0].Slow, r.Rollouts[0].SlowSound = n, n }
	}
	anecdote := func(s *Summary) { first(*s).Promises = first(*s).Promises[:1] }
	promised := func(p ...Promise) func(*Summary) { return func(s *Summary) { first(*s).Promises = p } }
	every := promised(Promise{Of: OfEvery})
	own1 := func(r *Row) { r.Rollouts[0].Excepted.Lost = 1 } // is the scenario's own doing
	beside := func(r *Row) { r.Beside = []string{"node n1: kube-proxy: table ip kube-proxy"} }
	for _, tc := range []struct {
		name string
		rows []Row
		edit func(*Summary)
		code int
		word Word // of the last row
	}{
		{"own fallback, nothing lost", []Row{own(Fallback, 0, 0)}, nil, 0, Pass},
		{"own fallback lost one", []Row{own(Fallback, 0, 1)}, nil, 1, Fail},
		{"within budget", []Row{own(Fallback, 1, 1)}, func(s *Summary) { s.Scenarios[0].Settings.Budget = 2 }, 0, Pass},
		{"budget is for the row", []Row{own(Fallback, 2, 1)}, func(s *Summary) { s.Scenarios[0].Settings.Budget = 2 }, 1, Fail},
		{"ignore row loses as it must", []Row{own(Fallback, 0), with(own(Ignore, 300), band(1, 195))}, nil, 0, Info},
		{"ignore row at the edge", []Row{with(own(Ignore, 195), band(1, 195))}, nil, 0, Info},
		{"ignore row loses too little", []Row{own(Fallback, 0), with(own(Ignore, 194), band(1, 195))}, nil, 2, Blind},
		{"ignore row at the upper edge", []Row{with(own(Ignore, 400), band(1, 195))}, nil, 0, Info},
		{"ignore row above the band, phases in step", []Row{with(own(Ignore, 401), func(r *Row) { band(1, 195)(r); r.Predicted.Var, r.Predicted.Max = 29*29, 440 })}, nil, 0, Info},
		{"ignore row loses too much", []Row{own(Fallback, 0), with(own(Ignore, 401), band(1, 195))}, nil, 1, Excess},
		{"ignore row loses more than phases in step", []Row{with(own(Ignore, 450), func(r *Row) { band(1, 195)(r); r.Predicted.Var, r.Predicted.Max = 29*29, 440 })}, nil, 1, Excess},
		{"anecdote loses too much", []Row{with(own(Ignore, 999), band(1, 195))}, anecdote, 0, Info},
		{"ignore row, band of other rollouts", []Row{with(own(Ignore, 300), band(3, 195))}, nil, 2, Blind},
		{"ignore row without a model", []Row{own(Fallback, 0), own(Ignore, 0)}, nil, 2, Invalid},
		{"ignore row without a model, not even run", []Row{own(Ignore)}, nil, 2, Invalid},
		{"anecdote without a model", []Row{own(Ignore, 0)}, anecdote, 0, Info},
		{"baseline without a model", []Row{own(Fallback, 0), with(own(Ignore, 0), base)}, nil, 0, Info},
		{"fallback without a model", []Row{own(Fallback, 0)}, nil, 0, Pass},
		{"anecdote", []Row{with(own(Ignore, 1), band(1, 195))}, anecdote, 0, Info},
		{"baseline loses", []Row{own(Fallback, 0), with(own(Fallback, 50), base)}, nil, 0, Info},
		{"another that declares the fallback loses", []Row{with(own(Fallback, 50), declared)}, nil, 1, Fail},
		{"another that declares the fallback loses nothing", []Row{with(own(Fallback, 0), declared)}, nil, 0, Pass},
		{"baseline below a band", []Row{with(with(own(Ignore, 1), band(1, 195)), base)}, nil, 0, Info},
		{"not enough rollouts", []Row{with(own(Fallback, 0), func(r *Row) { r.Wanted = 3 })}, nil, 2, Invalid},
		{"none at all", []Row{own(Fallback)}, nil, 2, Invalid},
		{"baseline could not be judged", []Row{own(Fallback, 0), with(own(Fallback), base)}, nil, 2, Invalid},
		{"row broke off", []Row{with(own(Fallback, 0), func(r *Row) { r.Error = "x" })}, nil, 2, Invalid},
		{"a loss outweighs what is unknown", []Row{own(Fallback), own(Fallback, 1)}, nil, 1, Fail},
		{"a loss in a row that broke off", []Row{with(own(Fallback, 1), func(r *Row) { r.Wanted = 3 })}, nil, 1, Fail},
		{"losses of a sick host", []Row{with(own(Fallback, 0), func(r *Row) { r.Invalid = []verdict.Rollout{rollout(9, 40)} })}, nil, 0, Pass},
		{"a loss at a sound moment of a rollout that does not count", []Row{with(own(Fallback, 0), func(r *Row) {
			r.Invalid = []verdict.Rollout{rollout(9, 40)}
			r.Invalid[0].LostSound = 1
		})}, nil, 1, Fail},
		{"one in a thousand late", []Row{with(own(Fallback, 0), slow(2))}, nil, 0, Pass},
		{"more are late", []Row{with(own(Fallback, 0), slow(3))}, nil, 1, Fail},
		{"more are late in one of many rollouts", []Row{with(own(Fallback, 0, 0, 0, 0, 0), slow(3))}, nil, 1, Fail},
		{"more are late in a rollout that does not count", []Row{with(own(Fallback, 0), func(r *Row) {
			r.Invalid = []verdict.Rollout{rollout(9, 0)}
			r.Invalid[0].SlowSound = 3
		})}, nil, 1, Fail},
		{"more are late, for other reasons", []Row{with(own(Fallback, 0), func(r *Row) { r.Rollouts[0].Slow = 900 })}, nil, 0, Pass},
		{"baseline is late", []Row{with(with(own(Fallback, 0), slow(900)), base)}, nil, 0, Info},
		{"nothing lost beside another proxy", []Row{with(own(Fallback, 0), beside)}, nil, 0, Info},
		{"lost beside another proxy", []Row{with(own(Fallback, 1), beside)}, nil, 1, Fail},
		{"ignore row beside another proxy loses nothing", []Row{with(with(own(Ignore, 0), band(1, 195)), beside)}, nil, 0, Info},
		{"not enough beside another proxy", []Row{with(own(Fallback), beside)}, nil, 2, Invalid},
		{"a promise of every dataplane", []Row{with(own(Fallback, 1), base)}, every, 1, Fail},
		{"a promise of ours, another loses", []Row{with(own(Fallback, 1), base)}, promised(Promise{Of: OfOwn}), 0, Info},
		{"a promise of ours, an ignore row loses", []Row{own(Ignore, 1)}, promised(Promise{Of: OfOwn}), 1, Fail},
		{"a promise of ours, one that is judged like them loses", []Row{with(own(Fallback, 1), declared)}, promised(Promise{Of: OfOwn}), 1, Fail},
		{"a loss that is the scenario's own doing", []Row{with(own(Fallback, 1), own1)}, every, 0, Pass},
		{"and others", []Row{with(own(Fallback, 2), own1)}, every, 1, Fail},
		{"slow by the scenario's own doing", []Row{with(with(own(Fallback, 0), slow(9)), func(r *Row) { r.Rollouts[0].Excepted.SlowSound = 7 })}, every, 0, Pass},
		{"and one at a sound moment of a rollout that does not count", []Row{with(own(Fallback, 0), func(r *Row) {
			r.Invalid = []verdict.Rollout{rollout(9, 40)}
			r.Invalid[0].LostSound, r.Invalid[0].Excepted = 1, verdict.Excepted{Lost: 1, LostSound: 1}
		})}, every, 0, Pass},
		{"one of two scenarios was not supported at all", []Row{own(Fallback, 0)}, func(s *Summary) {
			s.Scenarios = append(s.Scenarios, Scenario{Name: "other", Rows: []Row{{Unsupported: "no balancer of ours"}}})
		}, 2, Pass},
		{"nothing is promised", []Row{own(Fallback, 9), own(Ignore, 9)}, promised(), 0, Info},
		{"run broke off", []Row{own(Fallback, 0)}, func(s *Summary) { s.Error = "interrupted" }, 2, Pass},
		{"no rows", nil, nil, 2, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Summary{Scenarios: []Scenario{{Promises: sample().Scenarios[0].Promises, Rows: tc.rows}}}
			if tc.edit != nil {
				tc.edit(&s)
			}
			if got := ExitCode(s); got != tc.code {
				t.Errorf("exit code %d, want %d", got, tc.code)
			}
			if done := Complete(s); done.ExitCode != tc.code || (len(s.Scenarios[0].Rows) > 0 && done.Scenarios[0].Rows[len(s.Scenarios[0].Rows)-1].Word != tc.word) {
				t.Errorf("completed: exit %d, rows %+v; want word %s", done.ExitCode, done.Scenarios[0].Rows, tc.word)
			}
		})
	}
}

// TestRunInJUnit: a run that ended early is not green because its rows are.
func TestRunInJUnit(t *testing.T) {
	good := func(edit func(*Summary)) Summary {
		s := sample()
		s.Scenarios[0].Rows = s.Scenarios[0].Rows[:2]
		edit(&s)
		return s
	}
	for _, tc := range []struct {
		name                  string
		s                     Summary
		tests, fails, errored int
		message               string // of the case "run"
	}{
		{"to its end", good(func(*Summary) {}), 2, 0, 0, ""},
		{"ended early", good(func(s *Summary) { s.Error = errors.Join(errors.New("remove x"), errors.New("interrupted")).Error() }), 3, 0, 1,
			"the run ended early: remove x; interrupted"},
		{"before its first row", good(func(s *Summary) { s.Scenarios[0].Rows, s.Error = nil, "no cluster" }), 1, 0, 1, "the run ended early: no cluster"},
		{"no rows and no word why", good(func(s *Summary) { s.Scenarios[0].Rows = nil }), 1, 0, 1, "no row was run"},
		{"and a row that lost", good(func(s *Summary) { s.Scenarios[0].Rows[0].Rollouts[0].Lost, s.Error = 1, "interrupted" }), 3, 1, 1, "the run ended early: interrupted"},
		{"no prediction", good(func(s *Summary) { s.Scenarios[0].Rows[1].Predicted = nil }), 2, 0, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := junit(tc.s)
			if err != nil {
				t.Fatal(err)
			}
			var got render.Suite
			if err := xml.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if got.Tests != tc.tests || got.Failures != tc.fails || got.Errors != tc.errored || len(got.Cases) != tc.tests {
				t.Errorf("tests %d (%d cases), failures %d, errors %d; want %d, %d, %d",
					got.Tests, len(got.Cases), got.Failures, got.Errors, tc.tests, tc.fails, tc.errored)
			}
			message := ""
			for _, c := range got.Cases {
				if c.Name == "run" && c.Error != nil {
					message = c.Error.Message
				}
			}
			if message != tc.message {
				t.Errorf("message %q, want %q", message, tc.message)
			}
		})
	}
}

// TestErrorsOnOneLine: errors.Join puts each error on a line of its own; a
// table, a note and an attribute have but one.
func TestErrorsOnOneLine(t *testing.T) {
	joined := errors.Join(errors.New("rollout 2: interrupted"), errors.New("remove kube-proxy:\n\n\tstill there\x1b[2J\r"))
	s := sample()
	s.Scenarios[0].Rows[1].Error, s.Error = joined.Error(), joined.Error()
	const want = "rollout 2: interrupted; remove kube-proxy:; still there [2J"
	var b bytes.Buffer
	if err := Table(&b, Complete(s), Form{Wide: true}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"\n- plumb-nftables ignore+drop: not run to its end: " + want + "\n", "\n- the run ended early: " + want + "\n",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("the table lacks %q:\n%s", line, b.String())
		}
	}
	if got := problem(s.Scenarios[0].Rows[1], s.Scenarios[0]); got != want {
		t.Errorf("junit message %q, want %q", got, want)
	}
}

// TestUnpredictedNote: who reads that a row is invalid reads why.
func TestUnpredictedNote(t *testing.T) {
	s := sample()
	s.Scenarios[0].Rows[1].Predicted = nil
	var b bytes.Buffer
	if err := Table(&b, Complete(s), Form{Wide: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "- plumb-nftables ignore+drop: "+noPrediction) || strings.Count(b.String(), noPrediction) != 1 {
		t.Errorf("no note, or one too many, about the missing prediction:\n%s", b.String())
	}
	if got := problem(s.Scenarios[0].Rows[1], s.Scenarios[0]); got != noPrediction {
		t.Errorf("junit message %q", got)
	}
}

// TestBesideNote: whoever reads a report is told that another's work may be in it.
func TestBesideNote(t *testing.T) {
	s := sample()
	s.Scenarios[0].Rows[0].Beside = []string{"node n1: kube-proxy: table ip kube-proxy", "node n2: x\ny"}
	var b bytes.Buffer
	if err := Table(&b, Complete(s), Form{Wide: true}); err != nil {
		t.Fatal(err)
	}
	want := "- " + s.Scenarios[0].Rows[0].Name + ": measured beside another Service proxy, whose work this may be: node n1: kube-proxy: table ip kube-proxy; node n2: x; y"
	if !strings.Contains(b.String(), want) {
		t.Errorf("no note %q:\n%s", want, b.String())
	}
}

func TestModelNotes(t *testing.T) {
	s := sample()
	s.Scenarios[0].Rows[0].Predicted.SafeDelay, s.Scenarios[0].Rows[0].Predicted.Note = 12.2, "a word"
	if n := modelNotes(s.Scenarios[0].Rows[0], s.Scenarios[0].Settings); len(n) != 2 || !strings.Contains(n[1], "12.2 s") {
		t.Errorf("%q", n)
	}
	s.Scenarios[0].Settings.PreStop = Duration(200 * time.Millisecond)
	if n := modelNotes(s.Scenarios[0].Rows[0], s.Scenarios[0].Settings); len(n) != 1 {
		t.Errorf("long enough: %q", n)
	}
}

// Durations are text, and are read as such.
func TestDurations(t *testing.T) {
	want := LB{Interval: Duration(2500 * time.Millisecond)}
	b, err := json.Marshal(want)
	if err != nil || !bytes.Contains(b, []byte(`"interval":"2.5s"`)) {
		t.Errorf("%s, %v", b, err)
	}
	var got LB
	if err := json.Unmarshal(b, &got); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{`{"interval":"2.5"}`, `{"interval":true}`, `{"interval":2500000000}`} {
		if err := json.Unmarshal([]byte(text), &LB{}); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// A report of the version before says the same as one of this: of an anecdote that its band
// judges nothing.
func TestReadV1alpha1(t *testing.T) {
	for nominal, promises := range map[bool]int{false: 2, true: 1} {
		path := filepath.Join(t.TempDir(), SummaryFile)
		old := fmt.Sprintf(`{"apiVersion":"plumbline.io/v1alpha1","kind":"DisruptionReport","scenario":"e1","title":"x","lb":{"interval":1000000000},
			"settings":{"rate":100,"delay":6000000000,"nominal":%t},"rows":[{"name":"a","own":true,"mode":"fallback","wanted":1,"rollouts":[{"number":1,"lost":1}]}],"exitCode":1}`, nominal)
		if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		sc := s.Scenarios[0]
		if sc.Name != "e1" || sc.Settings.Delay != Duration(6*time.Second) || s.LB.Interval != Duration(time.Second) || len(sc.Promises) != promises || sc.Model != SingleReplica {
			t.Errorf("read %+v", s)
		}
		if done := Complete(s); done.ExitCode != ExitLost || done.Scenarios[0].Rows[0].Word != Fail || done.APIVersion != APIVersion {
			t.Errorf("judged %+v", done)
		}
	}
}

// Several scenarios have a section each behind an overview, and are told apart in every rendering.
func TestSeveralScenarios(t *testing.T) {
	s := sample()
	second := s.Scenarios[0]
	second.Name, second.Says, second.Source = "lb-reload", "A reload loses nothing.", []string{"a guide"}
	second.Starts = timeline.Start{Kind: record.KindLB, State: "reload"}
	second.Promises = []Promise{{Of: OfEvery, But: []verdict.Cause{verdict.CauseNoServer, verdict.CauseRemembered}}}
	second.Settings.Recovery = Duration(5 * time.Second)
	second.Rows = slices.Clone(second.Rows[:2])
	at := rollout(1, 0)
	for i := range 2 {
		at.Transitions = append(at.Transitions, verdict.Transition{At: 2 * float64(i), Kind: record.KindLB, State: "reload", Lost: i})
	}
	at.Transitions[1].Stale = map[string]float64{"n2": 0, "n1": 1.5}
	second.Rows[0].Rollouts = []verdict.Rollout{at, rollout(2, 0)}
	s.Scenarios = append(s.Scenarios, second)
	var table bytes.Buffer
	if err := Table(&table, Complete(s), Form{Wide: true}); err != nil {
		t.Fatal(err)
	}
	golden(t, "several.txt", table.Bytes())
	golden(t, "several.md", markdown(s))
	page, err := html(s)
	if err != nil {
		t.Fatal(err)
	}
	suite, err := junit(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<h2 class="sc">rolling-update`, `<h2 class="sc">lb-reload`, "In the drawings 0 s is the first lb reload", "In the drawings 0 s is the deletion of the old pod"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("report.html lacks %q", want)
		}
	}
	for _, want := range []string{`classname="plumbline.rolling-update"`, `classname="plumbline.lb-reload"`, `tests="7"`} {
		if !strings.Contains(string(suite), want) {
			t.Errorf("junit.xml lacks %q", want)
		}
	}
	names := map[string]bool{}
	for _, p := range Compare(s, s) {
		names[p.Name] = true
		if p.A == nil || p.B == nil || p.A != p.B && p.A.Name != p.B.Name {
			t.Errorf("%s is paired wrongly", p.Name)
		}
	}
	if len(names) != 7 || !names["lb-reload, "+second.Rows[0].Name] {
		t.Errorf("pairs %v", names)
	}
}
