package conformance

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	type line struct {
		Key  string
		A, B Result
	}
	for _, tc := range []struct {
		name string
		edit func(*Report)
		want []line
		text string
	}{
		{"the same", func(*Report) {}, nil, "The same in all of 8 tests."},
		{"other times, order and words", func(r *Report) {
			slices.Reverse(r.Tests)
			r.Seed, r.Date, r.Duration = 7, r.Date.Add(time.Hour), 1
			for i := range r.Tests {
				r.Tests[i].Attempts, r.Tests[i].Delay, r.Tests[i].Reason, r.Tests[i].Evidence = 9, 9, "other words", nil
			}
		}, nil, "The same"},
		{"another result", func(r *Report) { r.Tests[0].Result, r.Tests[0].Reason = Pass, "" }, []line{{"terminating-fallback [IPv6]", Fail, Pass}}, "1 of 8 tests differ"},
		{"a doubtful result", func(r *Report) { r.Features[0].Reason = "" }, []line{{"sctp-clusterip", Unsupported, Inconclusive}}, "B: called unsupported"},
		{"one that is gone", func(r *Report) { r.Tests = r.Tests[1:] }, []line{{"terminating-fallback [IPv6]", Fail, ""}}, "1 of 8"},
		{"a new one", func(r *Report) { r.Tests = append(r.Tests, Test{ID: "new", Profile: "UDP", Level: May, Result: Pass}) }, []line{{"new", "", Pass}}, "1 of 9"},
		{"another level", func(r *Report) { r.Tests[2].Level = Should }, []line{{"clusterip-pod", Pass, Pass}}, "MUST (differs)"},
		{"in the order of reports", func(r *Report) { r.Tests[0].Result, r.Tests[3].Result, r.Tests[7].Result = Pass, Pass, Pass },
			[]line{{"clusterip-undefined-port", Fail, Pass}, {"terminating-fallback [IPv6]", Fail, Pass}, {"affinity-clientip", Inconclusive, Pass}}, "3 of 8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := sample()
			tc.edit(&b)
			var got []line
			for _, d := range Compare(sample(), b) {
				got = append(got, line{d.Key(), d.A, d.B})
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			var out bytes.Buffer
			same, err := CompareTable(&out, sample(), b)
			if err != nil || same != (tc.want == nil) || !strings.Contains(out.String(), tc.text) {
				t.Errorf("same %v, %v; want %q in:\n%s", same, err, tc.text, out.String())
			}
		})
	}
}

func TestCompareGolden(t *testing.T) {
	var b bytes.Buffer
	if _, err := CompareTable(&b, sample(), other()); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", b.Bytes())
}

func TestCompareAll(t *testing.T) {
	seeded := func(seed int64, edit func(*Report)) Report {
		r := sample()
		r.Seed = seed
		slices.Reverse(r.Tests)
		if edit != nil {
			edit(&r)
		}
		return r
	}
	for _, tc := range []struct {
		name    string
		reports []Report
		want    []string // lines
	}{
		{"identical", []Report{seeded(1, nil), seeded(2, nil), seeded(3, nil)}, []string{"3 reports (seeds 1, 2, 3): identical in all of 8 tests."}},
		{"one result", []Report{seeded(1, nil), seeded(2, nil), seeded(3, func(r *Report) { r.Tests[5].Result = Fail })},
			[]string{"3 reports (seeds 1, 2, 3): 1 of 8 tests differ.", "", "TEST           PROFILE  1            2            3", "clusterip-pod  Core     pass (MUST)  pass (MUST)  fail (MUST)"}},
		{"one family is gone", []Report{seeded(1, nil), seeded(2, func(r *Report) { r.Tests = r.Tests[:7] }), seeded(3, nil)},
			[]string{"3 reports (seeds 1, 2, 3): 1 of 8 tests differ.", "", "TEST                         PROFILE      1            2  3", "terminating-fallback [IPv6]  Terminating  fail (MUST)  -  fail (MUST)"}},
		{"another level", []Report{seeded(1, nil), seeded(1, func(r *Report) { r.Tests[5].Level = May })},
			[]string{"2 reports (seeds 1, 1): 1 of 8 tests differ.", "", "TEST           PROFILE  1            2", "clusterip-pod  Core     pass (MUST)  pass (MAY)"}},
	} {
		var out bytes.Buffer
		same, err := CompareAll(&out, tc.reports)
		if err != nil || same != (len(tc.want) == 1) {
			t.Errorf("%s: same %v, %v", tc.name, same, err)
		}
		if d := cmp.Diff(tc.want, strings.Split(strings.TrimSpace(out.String()), "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}
