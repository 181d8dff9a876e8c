package report

import (
	"bytes"
	"strings"
	"testing"
)

// Two runs agree if chance explains their difference, and only then.
func TestCompare(t *testing.T) {
	base := sample()
	base.Rows = base.Rows[1:2] // ignore+drop: lost 590, band 412.3 to 790
	for _, tc := range []struct {
		name   string
		mutate func(*Summary)
		want   string
	}{
		{"the same", func(*Summary) {}, ""},
		{"another seed", func(s *Summary) { s.Settings.Seed = 7 }, ""},
		{"outside the band", func(s *Summary) { s.Rows[0].Rollouts[0].Lost += 300 }, "lost 890, outside 412.3-790"},
		{"longer windows", func(s *Summary) { s.Rows[0].Rollouts[0].LongestWindow += 9 }, "windows differ by 9.00 s"},
		{"other settings", func(s *Summary) { s.Settings.Rate++ }, "other settings"},
		{"another profile", func(s *Summary) { s.LB.Fall++ }, "other settings"},
		{"no model", func(s *Summary) { s.Rows[0].Predicted = nil }, "could not be judged"},
		{"unsupported", func(s *Summary) { s.Rows[0].Unsupported = "no netem" }, "unsupported: no netem"},
		{"another row", func(s *Summary) { s.Rows[0].Name = "x" }, "only one report has it"},
	} {
		other := sample()
		other.Rows = other.Rows[1:2]
		tc.mutate(&other)
		got := Compare(base, other)[0].Differs
		if tc.want == "" && len(got) > 0 || tc.want != "" && !strings.Contains(strings.Join(got, "; "), tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		var out bytes.Buffer
		agree, err := CompareTable(&out, base, other)
		if err != nil || agree != (tc.want == "") || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: agree %v, %v:\n%s", tc.name, agree, err, out.String())
		}
	}
}
