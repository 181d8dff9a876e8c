package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStreamText(t *testing.T) {
	ms := func(n int) Duration { return Duration(n) * Duration(time.Millisecond) }
	outage := Outage{ms(2100), ms(60), 3}
	for _, tc := range []struct {
		outages []Outage
		failed  int
		max     Duration
		want    string
	}{
		{nil, 0, 0, "a to b: 500 sent at 12.5/s, 0 failed"},
		{[]Outage{outage}, 3, ms(9), "a to b: 500 sent at 12.5/s, 3 failed in one outage of 60ms at 2.1s, p50 1ms p99 4ms max 9ms"},
		{[]Outage{outage, {ms(5000), ms(1000), 2}}, 5, 0, "a to b: 500 sent at 12.5/s, 5 failed in 2 outages of 60ms at 2.1s, 1s at 5s"},
		{[]Outage{outage, outage, outage, outage, outage}, 15, 0, "a to b: 500 sent at 12.5/s, 15 failed in 5 outages of 60ms at 2.1s, 60ms at 2.1s, 60ms at 2.1s and 2 more"},
	} {
		s := Stream{Client: "a", Target: "b", Rate: 12.5, Sent: 500, Failed: tc.failed, Outages: tc.outages, P50: ms(1), P99: ms(4), Max: tc.max}
		if got := streamText(s); got != tc.want {
			t.Errorf("%s\nwant\n%s", got, tc.want)
		}
	}
}

func TestHarness(t *testing.T) {
	for want, h := range map[string]Harness{"v0.4.0 121533f": {"v0.4.0", "121533f"}, "121533f-dirty": {"121533f-dirty", "121533f-dirty"}, "v1": {Version: "v1"}, "abc": {Commit: "abc"}} {
		if got := harness(h); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
}

// TestReadOlder: a report that lacks fields of this one, or has one that was taken
// away, is read for what it says.
func TestReadOlder(t *testing.T) {
	dir := t.TempDir()
	text := `{"apiVersion": "` + APIVersion + `", "kind": "` + Kind + `", "chosen": 1, "of": 1,
		"tests": [{"id": "a", "family": "affinity", "profile": "Core", "level": "MUST", "result": "pass"}]}`
	if err := os.WriteFile(filepath.Join(dir, JSONFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Test{{ID: "a", Profile: "Core", Level: Must, Result: Pass}}, r.Tests); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := Complete(r); got.Conclusion != Conformant {
		t.Errorf("it is %s: %s", got.Conclusion, got.Why)
	}
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, MarkdownFile))
	if err != nil || strings.Contains(string(b), "phases") {
		t.Errorf("it shows phases that nobody noted: %v\n%s", err, b)
	}
}
