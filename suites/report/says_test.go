package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/verdict"
)

// told is a row of ours with the fallback, whose rollouts are changed one by one.
func toldRow(change func(*Row)) Row {
	r := Row{Name: "ours", Own: true, Judged: true, Mode: Fallback, Wanted: 1, Rollouts: []verdict.Rollout{{Number: 1, Valid: true, Sent: 1000}}}
	change(&r)
	return r
}

// TestSays: what a row's sentences are about is what its verdict is about.
func TestSays(t *testing.T) {
	sc := Scenario{Name: "lb-restart", Promises: []Promise{{Of: OfEvery, But: []verdict.Cause{verdict.CauseLBReset}}}}
	lost := func(n int, causes map[verdict.Cause]int) verdict.Rollout {
		return verdict.Rollout{Number: 1, Valid: true, Sent: 1000, Lost: n, LostSound: n, Causes: causes}
	}
	for name, tc := range map[string]struct {
		row       Row
		word      Word
		has, lack []string
		free      bool // nothing is promised of it
	}{
		"nothing lost": {toldRow(func(*Row) {}), Pass, []string{"ours lost none of 1000 connections."}, []string{"allowed", "stretch"}, false},
		"the scenario's own doing": {toldRow(func(r *Row) {
			r.Rollouts[0] = lost(40, map[verdict.Cause]int{verdict.CauseLBReset: 40})
			r.Rollouts[0].Excepted = verdict.Excepted{Lost: 40, LostSound: 40}
		}), Pass, []string{"lost 40 of 1000 connections, 40 of them the scenario's own doing", "Nobody: it is what the scenario does [lb-reset]"}, []string{"load balancer", "allowed"}, false},
		"more than that": {toldRow(func(r *Row) {
			r.Rollouts[0] = lost(42, map[verdict.Cause]int{verdict.CauseLBReset: 40, verdict.CauseNodeDrop: 2})
			r.Rollouts[0].Excepted = verdict.Excepted{Lost: 40, LostSound: 40, Causes: map[verdict.Cause]int{verdict.CauseLBReset: 40}}
		}), Fail, []string{"(allowed: 0)", "The dataplane: packets reached the node and went no further", "[node-drop]"}, []string{"The load balancer"}, false},
		"in a rollout that does not count": {toldRow(func(r *Row) {
			r.Invalid = []verdict.Rollout{{Number: 1, Sent: 900, Lost: 9, LostSound: 7, Reasons: []string{"probes were late"}, Causes: map[verdict.Cause]int{verdict.CauseNodeReset: 9}}}
			r.Rollouts = nil
		}), Fail, []string{"has no rollout that counts, and 7 at sound moments of rollouts that do not count otherwise (allowed: 0)", "[node-reset]",
			"0 of 1 rollout could be judged: probes were late. Seen and not counted: 2 of 900 lost."}, []string{"none of"}, false},
		"late alone": {toldRow(func(r *Row) {
			r.Rollouts[0].Slow, r.Rollouts[0].SlowSound = 30, 20
			r.Rollouts[0].SlowCauses = map[verdict.Cause]int{verdict.CauseLBSilent: 25, verdict.CauseNodeDrop: 5}
		}), Fail, []string{"lost none", "answered 30 late; 20 of 1000 in one rollout for what may be the dataplane's doing, where 1 in 1000 may be", "[node-drop]"}, []string{"lb-silent"}, false},
		"the scenario's own doing, and late": {toldRow(func(r *Row) {
			r.Rollouts[0] = lost(40, map[verdict.Cause]int{verdict.CauseLBReset: 40})
			r.Rollouts[0].Excepted = verdict.Excepted{Lost: 40, LostSound: 40, Causes: map[verdict.Cause]int{verdict.CauseLBReset: 40}}
			r.Rollouts[0].Slow, r.Rollouts[0].SlowSound, r.Rollouts[0].SlowCauses = 20, 20, map[verdict.Cause]int{verdict.CauseNodeDrop: 20}
		}), Fail, []string{"[node-drop]"}, []string{"Nobody"}, false},
		"a part of one cause": {toldRow(func(r *Row) {
			r.Rollouts[0] = lost(61, map[verdict.Cause]int{verdict.CauseLBReset: 60, verdict.CauseNodeDrop: 1})
			r.Rollouts[0].Excepted = verdict.Excepted{Lost: 40, LostSound: 40, Causes: map[verdict.Cause]int{verdict.CauseLBReset: 40}}
		}), Fail, []string{"The load balancer (20 of the 21 losses)", "[lb-reset]"}, nil, false},
		"not judged": {toldRow(func(r *Row) {
			r.Invalid = []verdict.Rollout{{Number: 1, Sent: 900, Lost: 9, LostSound: 9, Reasons: []string{"probes were late"}}}
			r.Rollouts, r.Judged, r.Own, r.Name = nil, false, false, "ours"
		}), Invalid, []string{"could not be judged: probes were late. Seen and not counted: 9 of 900 lost."}, nil, true},
		"broken at the end": {toldRow(func(r *Row) { r.Error = "remove it: no" }), Invalid, []string{"lost none", "not run to its end: remove it: no."}, nil, false},
		"another beside it": {toldRow(func(r *Row) { r.Beside = []string{"kube-proxy"} }), Info, []string{"Another Service proxy ran beside it, whose work this may be: kube-proxy."}, nil, false},
		"unsupported":       {toldRow(func(r *Row) { r.Unsupported = "no kernel" }), Unsupported, []string{"ours was not run: no kernel."}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			sc := sc
			if tc.free {
				sc.Promises = nil
			}
			if word := tc.row.Judge(sc); word != tc.word {
				t.Fatalf("judged %s, want %s", word, tc.word)
			}
			said := tc.row.says(sc)
			for _, want := range tc.has {
				if !strings.Contains(said, want) {
					t.Errorf("does not say %q: %s", want, said)
				}
			}
			for _, no := range tc.lack {
				if strings.Contains(said, no) {
					t.Errorf("says %q: %s", no, said)
				}
			}
		})
	}
}

// TestWhere: of two stretches the longer one, wherever it comes; and what is of no node is where
// its causes say.
func TestWhere(t *testing.T) {
	short := verdict.Window{Start: 1, End: 1.6, Lost: 100, Of: 400, Causes: map[verdict.Cause]int{verdict.CauseLBSilent: 100}}
	long := verdict.Window{Node: "n1", Start: 2, End: 5, Lost: 90, Of: 90}
	row := func(windows ...verdict.Window) Row {
		return Row{Rollouts: []verdict.Rollout{{Number: 1, NodeWindows: windows}}}
	}
	for _, r := range []Row{row(short, long), row(long, short)} {
		if got, want := r.where(), "The longest stretch: 90 on n1, from 2.00 s to 5.00 s."; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := row(short).where(), "The longest stretch: 100 at the load balancer, from 1.00 s to 1.60 s."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	short.Causes = map[verdict.Cause]int{verdict.CauseNoServer: 3, verdict.CauseCheckFailed: 2}
	if got := placeOf(short); got != "with no server UP" {
		t.Errorf("no server: %q", got)
	}
	short.Causes = map[verdict.Cause]int{verdict.CauseUnknown: 3}
	if got := placeOf(short); got != "at a node that is not known" {
		t.Errorf("not known: %q", got)
	}
}

// TestConclusion: its first word and the exit code agree, for every pair of rows in one scenario
// and in two.
func TestConclusion(t *testing.T) {
	kinds := map[string]Row{
		"pass":    toldRow(func(*Row) {}),
		"fail":    toldRow(func(r *Row) { r.Rollouts[0].Lost, r.Rollouts[0].LostSound = 5, 5 }),
		"slow":    toldRow(func(r *Row) { r.Rollouts[0].SlowSound = 50 }),
		"invalid": toldRow(func(r *Row) { r.Rollouts = nil }),
		"info":    {Name: "theirs", Wanted: 1, Rollouts: []verdict.Rollout{{Number: 1, Valid: true, Sent: 1000, Lost: 9}}},
		"blind":   {Name: "ours ignore", Own: true, Mode: Ignore, Wanted: 1, Rollouts: []verdict.Rollout{{Number: 1, Valid: true, Sent: 1000}}, Predicted: predicted(1, 100, 50, 150)},
		"excess":  {Name: "ours ignore", Own: true, Mode: Ignore, Wanted: 1, Rollouts: []verdict.Rollout{{Number: 1, Valid: true, Sent: 1000, Lost: 900}}, Predicted: predicted(1, 100, 50, 150)},
		"none":    toldRow(func(r *Row) { r.Unsupported = "no kernel" }),
	}
	promises := []Promise{{Of: OfFallback}, {Of: OfIgnore, Band: true}}
	words := map[string]int{"pass": ExitPass, "info": ExitPass, "FAIL": ExitLost, "NOT JUDGED": ExitUnknown}
	check := func(what string, s Summary) {
		first, _, _ := strings.Cut(conclusion(s), ":")
		if code, ok := words[first]; !ok || code != ExitCode(s) {
			t.Errorf("%s: %q, and exit code %d", what, conclusion(s), ExitCode(s))
		}
	}
	for a, x := range kinds {
		for b, y := range kinds {
			check(a+" and "+b, Summary{Scenarios: []Scenario{{Name: "one", Promises: promises, Rows: []Row{x, y}}}})
			check(a+", then "+b, Summary{Scenarios: []Scenario{{Name: "one", Promises: promises, Rows: []Row{x}}, {Name: "two", Promises: promises, Rows: []Row{y}}}})
			check(a+" and an error", Summary{Error: "it broke", Scenarios: []Scenario{{Name: "one", Promises: promises, Rows: []Row{x}}}})
		}
	}
	check("nothing", Summary{})
}

// TestNarrowTable: 80 columns are enough for a verdict, whatever a row is called, and on a wider
// terminal, or none, nothing is left out.
func TestNarrowTable(t *testing.T) {
	s := hostile()
	s.Scenarios[0].Rows[0].Name = strings.Repeat("plumb-nftables ", 8)
	for _, tc := range []struct {
		width int
		has   string
	}{{80, "VERDICT"}, {60, "DATAPLANE"}, {200, "ROLLOUTS"}, {0, "ROLLOUTS"}} {
		var b bytes.Buffer
		if err := Table(&b, s, Form{Width: tc.width}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), tc.has) {
			t.Errorf("%d columns: no %s in\n%s", tc.width, tc.has, b.String())
		}
		seq := false
		for line := range strings.Lines(b.String()) {
			switch {
			case strings.HasPrefix(line, "as the client saw it"):
				seq = true
			case line == "\n":
				seq = false
			}
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); tc.width > 0 && n > tc.width && !strings.Contains(line, "example.com") && !seq {
				t.Errorf("%d columns: a line of %d: %s", tc.width, n, line)
			}
		}
	}
	var b bytes.Buffer
	if err := Table(&b, sample(), Form{Width: 80}); err != nil {
		t.Fatal(err)
	}
	golden(t, "narrow.txt", b.Bytes())
}

// TestMeanings: every cause is explained.
func TestMeanings(t *testing.T) {
	for _, c := range verdict.Causes() {
		if m := meaningOf(c); m.Who == "" || m.What == "" {
			t.Errorf("cause %s has no meaning", c)
		}
	}
}

// TestTrace: the file is Chrome's format, each state is a span below its rollout, and every loss is
// in it.
func TestTrace(t *testing.T) {
	b, err := trace(sample())
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct {
			Name, Ph string
			TS, Dur  float64
			PID, TID int
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	processes, lost := map[int]string{}, 0
	for _, e := range file.TraceEvents {
		switch e.Ph {
		case "M":
			if e.Name == "process_name" {
				processes[e.PID] = fmt.Sprint(e.Args["name"])
			}
		case "X":
			if e.TS < 0 || e.Dur <= 0 || e.TID == 0 {
				t.Errorf("a state without a place: %+v", e)
			}
		case "i":
			if verdict.Class(e.Name).Lost() && processes[e.PID] == "rolling-update: plumb-nftables ignore+drop, rollout 1" {
				lost++
			}
		}
	}
	if len(processes) != 7 || lost != 3 {
		t.Errorf("%d rollouts, want 7; %d losses of one, want the 3 that are points of it: %v", len(processes), lost, processes)
	}
}

// TestToldAsDrawn: what is said in words is what the bars are.
func TestToldAsDrawn(t *testing.T) {
	v := rollout(1, 300)
	v.Series.Changes = append(v.Series.Changes, verdict.Change{T: 6, Kind: record.KindEndpoint, State: "terminating", Node: "n1", Pod: evil})
	said := strings.Join(told(v), "\n")
	for _, l := range draw(v).Lanes {
		for _, b := range l.Bars {
			text, _, _ := strings.Cut(b.Title, " from ")
			if !strings.Contains(said, ": "+text) {
				t.Errorf("the drawing's %q is not told:\n%s", text, said)
			}
		}
	}
}

// TestCausesPage: docs/causes.md has every cause, in the words of reports.
func TestCausesPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Causes\n\nThe code words behind a loss or a late answer: who has to look at it, and what happened. What is known of\n" +
		"each, and in which order they are asked, is in [what the verdict rests on](measurement.md#lost-slow-and-whose-it-is).\n")
	for _, c := range verdict.Causes() {
		m := meaningOf(c)
		fmt.Fprintf(&b, "\n## %s\n\n**%s**", c, capital(m.Who))
		if hop := c.Hop(); hop != verdict.HopUnknown {
			fmt.Fprintf(&b, " (met at the %s)", hop)
		}
		fmt.Fprintf(&b, ": %s.", m.What)
		if m.Why != "" {
			fmt.Fprintf(&b, " %s.", capital(m.Why))
		}
		b.WriteString("\n")
	}
	golden(t, "../../../docs/causes.md", []byte(b.String()))
}
