package conformance

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/report/render"
)

// TestKnown: only a failure is documented, and only by who says why and where.
func TestKnown(t *testing.T) {
	whole := Documented{"a", "It does not.", []string{"KEP-1", "https://example.com/2"}}
	for name, tc := range map[string]struct {
		doc  Documented
		test Test
		want string
	}{
		"failed":       {whole, Test{ID: "a", Result: Fail, Reason: "r"}, "It does not. (KEP-1, https://example.com/2)"},
		"in a family":  {whole, Test{ID: "a", IPFamily: "IPv6", Result: Fail, Reason: "r"}, "It does not. (KEP-1, https://example.com/2)"},
		"another":      {whole, Test{ID: "b", Result: Fail, Reason: "r"}, ""},
		"passed":       {whole, Test{ID: "a", Result: Pass}, ""},
		"inconclusive": {whole, Test{ID: "a", Result: Inconclusive, Reason: "r"}, ""},
		"skipped":      {whole, Test{ID: "a", Result: Skip, Reason: "r"}, ""},
		"no result":    {whole, Test{ID: "a", Result: "ok", Reason: "r"}, ""},
		"no source":    {Documented{"a", "It does not.", nil}, Test{ID: "a", Result: Fail, Reason: "r"}, ""},
		"no why":       {Documented{"a", " ", whole.Source}, Test{ID: "a", Result: Fail, Reason: "r"}, ""},
	} {
		before := tc.test
		tc.test.Known = "what nobody documented"
		got := Complete(Report{Documented: []Documented{tc.doc}, Tests: []Test{tc.test}}).Tests[0]
		if got.Known != tc.want {
			t.Errorf("%s: known %q, want %q", name, got.Known, tc.want)
		}
		if before.Result != "ok" && (got.Result != before.Result || got.Reason != before.Reason) {
			t.Errorf("%s: %s, %q; want %s, %q", name, got.Result, got.Reason, before.Result, before.Reason)
		}
	}
}

func TestFailures(t *testing.T) {
	docs := []Documented{{"a", "no", []string{"KEP-1"}}}
	failed := func(id, family string) Test { return Test{ID: id, IPFamily: family, Result: Fail, Reason: "r"} }
	for name, tc := range map[string]struct {
		tests []Test
		want  []string
	}{
		"none":           {[]Test{{ID: "b", Result: Pass}}, nil},
		"documented":     {[]Test{failed("a", "IPv4"), failed("a", "IPv6")}, []string{"2 failures, 2 documented"}},
		"not documented": {[]Test{failed("a", ""), failed("b", "IPv4"), failed("c", "")}, []string{"3 failures, 1 documented", "not documented: b [IPv4], c"}},
		"passed":         {[]Test{failed("a", "IPv6"), {ID: "a", IPFamily: "IPv4", Result: Pass}}, []string{"1 failure, 1 documented", "documented to fail, but passed: a [IPv4]"}},
		"skipped":        {[]Test{{ID: "a", Result: Skip, Reason: "r"}}, nil},
	} {
		if d := cmp.Diff(tc.want, failures(Complete(Report{Documented: docs, Tests: tc.tests}))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestKnownIsShown beside the reason, in every rendering, and turns nothing green.
func TestKnownIsShown(t *testing.T) {
	r := Complete(sample())
	const reason, known = "40 of 200 attempts: timeout", "It keeps to terminating endpoints only where IPv6 is off. (https://kubernetes.io/issue/1, KEP-1669)"
	var table bytes.Buffer
	if err := Table(&table, r); err != nil {
		t.Fatal(err)
	}
	page, err := html(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := junit(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"table": table.String(), MarkdownFile: string(markdown(r)), HTMLFile: string(page), JUnitFile: string(x)} {
		if !strings.Contains(text, reason) || !strings.Contains(text, "; documented: "+known) {
			t.Errorf("%s lacks the reason or what is documented", name)
		}
		if name != JUnitFile && !strings.Contains(text, "not documented: clusterip-undefined-port") {
			t.Errorf("%s does not name what is not documented", name)
		}
	}
	if text := Matrix([]Report{r}); !strings.Contains(text, "documented: "+known) || strings.Contains(text, reason) {
		t.Error("the matrix does not have what is documented in the place of the reason")
	}
	var suite render.Suite
	if err := xml.Unmarshal(x, &suite); err != nil || suite.Failures != 1 || r.ExitCode != ExitNonConformant {
		t.Errorf("%v: %d failures, exit code %d; want 1 and 1", err, suite.Failures, r.ExitCode)
	}
}

// TestBalancerText: a timeout of checks that nobody configured is not shown.
func TestBalancerText(t *testing.T) {
	second := Duration(time.Second)
	for want, lb := range map[string]*LB{
		"":                      nil,
		"haproxy, profile l4-x": {Kind: "haproxy", Profile: "l4-x"},
		"haproxy, profile seed, check every 5s, fall 3, rise 1":                {Kind: "haproxy", Profile: "seed", Interval: 5 * second, Fall: 3, Rise: 1},
		"haproxy, profile l4-fast, check every 1s, timeout 1s, fall 3, rise 1": {Kind: "haproxy", Profile: "l4-fast", Interval: second, Timeout: second, Fall: 3, Rise: 1},
	} {
		if got := lbText(lb); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
