package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// text reads a recording without its heading.
func text(t *testing.T, s string) []Run {
	t.Helper()
	runs, err := Read(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// In both, Ready comes with the phase and after the address, and the endpoint in
// either order with the container's last state.
const twice = `
run 1 life a
+0.000s 1 pod object made
+0.100s 2 pod address given
+0.200s 3 pod phase Running
+0.200s 3 pod condition.Ready True
+0.250s 4 pod endpoint ready serving
+0.251s 5 pod container.last terminated
+3.000s - pod program sigterm
+4.000s 6 pod container terminated 0 Completed

run 2 life a
+0.000s 1 pod object made
+0.100s 2 pod address given
+0.200s 3 pod phase Running
+0.200s 3 pod condition.Ready True
+0.250s 4 pod container.last terminated
+0.251s 5 pod endpoint ready serving
+3.000s - pod program sigterm
+4.000s 6 pod container terminated 0 Completed
`

func TestCompare(t *testing.T) {
	recorded := text(t, twice)
	first := strings.Split(twice, "run 2")[0]
	for _, tc := range []struct {
		name     string
		from, to string
		want     []string
	}{
		{"the same", "", "", nil},
		{"other times", "+0.100s", "+0.900s", nil},
		{"a value that was not recorded", "pod phase Running", "pod phase Failed", []string{
			`life a: pod phase: after (nothing) came Failed; recorded: ["Running"]`,
			`life a: pod phase: after Failed came (the end); recorded: []`}},
		{"a facet that is missing", "+0.100s 2 pod address given\n", "", []string{
			`life a: pod address: nothing; it was always recorded`}},
		{"one more", "+4.000s", "+3.500s 6 pod address gone\n+4.000s", []string{
			`life a: pod address: after given came gone; recorded: ["(the end)"]`,
			`life a: pod address: after gone came (the end); recorded: []`}},
		{"another order in an object", "+0.100s 2 pod address given", "+0.210s 4 pod address given", []string{
			"life a: pod phase=Running came before pod address=given; recorded: after",
			"life a: pod condition.Ready=True came before pod address=given; recorded: after",
			"life a: pod address=given came together with pod endpoint=ready serving; recorded: before"}},
		{"two writes for one", "+0.200s 3 pod phase Running", "+0.150s 2 pod phase Running", []string{
			"life a: pod address=given came together with pod phase=Running; recorded: before",
			"life a: pod phase=Running came before pod condition.Ready=True; recorded: together with"}},
		{"the effect before its cause", "+0.250s 4 pod endpoint", "+0.150s 2 pod endpoint", []string{
			"life a: pod address=given came together with pod endpoint=ready serving; recorded: before",
			"life a: pod endpoint=ready serving came before pod condition.Ready=True; recorded: after"}},
		{"a race the other way round", "+0.251s 5", "+0.240s 3", []string{
			"life a: pod phase=Running came together with pod container.last=terminated; recorded: before",
			"life a: pod condition.Ready=True came together with pod container.last=terminated; recorded: before"}},
		{"a signal long after what is caused by it", "+3.000s -", "+5.000s -", []string{
			"life a: pod container=terminated 0 Completed came before pod program=sigterm; recorded: after"}},
		{"a signal within the doubt", "+3.000s -", "+4.050s -", nil},
		{"another life", "life a", "life b", []string{"life b was never recorded", "life a was not played"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := strings.Replace(first, tc.from, tc.to, 1)
			if tc.from != "" && changed == first {
				t.Fatalf("%q is not in the recording", tc.from)
			}
			got := text(t, changed)[0]
			for i := range got {
				got[i].Events = tidy(got[i].Events, nil)
			}
			if diff := cmp.Diff(tc.want, Compare(recorded, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteAndRead(t *testing.T) {
	runs := text(t, twice)
	var out strings.Builder
	if err := Write(&out, "a title: +1s 2", runs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runs, text(t, out.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{
		"+0s 1 pod object made", "run 2 life a", "run x life a", "run 1 life a\n+0s 1 pod object", "run 1 life a\nsoon 1 pod object made", "run 1 life a\n+0s x pod object made",
	} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
