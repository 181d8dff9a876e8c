package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// aSource is what can be looked up: a KEP, or a page that stays as it was read.
var aSource = regexp.MustCompile(`^(KEP-[0-9]+|https://\S+)$`)

// What a dataplane is said to differ from is in the catalogue, and somebody says so.
func TestDiffersDeclared(t *testing.T) {
	ids := map[string]bool{}
	for _, b := range behaviours.Catalogue() {
		ids[b.ID] = true
	}
	all, err := declarations()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, d := range all {
		if err := d.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, doc := range d.report().Documented {
			seen++
			if !ids[doc.Test] {
				t.Errorf("%s: there is no behaviour %s", name, doc.Test)
			}
			if strings.TrimSpace(doc.Why) == "" || len(doc.Source) == 0 {
				t.Errorf("%s, %s: it must say why, and who says so", name, doc.Test)
			}
			for _, s := range doc.Source {
				if !aSource.MatchString(s) || strings.Contains(s, "/blob/master/") || strings.Contains(s, "/blob/main/") {
					t.Errorf("%s, %s: source %q is neither a KEP nor the URL of what stays as it is", name, doc.Test, s)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("nothing is documented of any dataplane: nothing was tested")
	}
}

// The report has what is declared of the dataplane as it is named on the command line.
func TestDiffersReported(t *testing.T) {
	d, err := declaration("kube-proxy:iptables", "")
	if err != nil {
		t.Fatal(err)
	}
	r := d.without("sctp", "no sockets").report()
	r.Tests = []conformance.Test{{ID: behaviours.RemovedLeavesNothing().ID, Level: conformance.Must, Result: conformance.Fail, Reason: "a rule is left"}}
	r = conformance.Complete(r)
	states := map[string]conformance.State{}
	for _, f := range r.Features {
		states[f.Name] = f.State
	}
	want := map[string]conformance.State{}
	for _, f := range features() { // it is what all of them are taken from
		want[string(f)] = "supported"
	}
	want["nodeport-loopback"], want["sctp"] = "unsupported", "unsupported"
	if !maps.Equal(states, want) || r.Implementation.Project != "kubernetes" {
		t.Errorf("features %+v of %q", r.Features, r.Implementation.Project)
	}
	if got := r.Tests[0]; !strings.Contains(got.Known, "--cleanup") || got.Result != conformance.Fail || r.ExitCode != conformance.ExitNonConformant {
		t.Errorf("%s is %s, known %q, exit code %d", got.ID, got.Result, got.Known, r.ExitCode)
	}
}

// A file declares of a dataplane what its name does not; undeclared is unknown.
func TestDeclarationFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cilium.yaml")
	for name, tc := range map[string]struct{ text, want string }{
		"good":        {"project: cilium\norganization: CNCF\nversion: v2\nsupported: [sctp]\nunsupported: {nodeport-loopback: not asked for, proxy-healthz: off by default, terminating-fallback: under policy Local alone}\nhealth: {port: 9879}\nevidence: [\"lb list {address} {port} {protocol} {frontend} {family}\"]\n", ""},
		"a field":     {"project: cilium\nsupport: [sctp]\n", `unknown field "support"`},
		"a feature":   {"project: cilium\nsupported: [speed]\n", `unknown feature "speed"`},
		"no reason":   {"project: cilium\nunsupported: {sctp: ' '}\n", "must say why"},
		"both":        {"project: cilium\nsupported: [sctp]\nunsupported: {sctp: no}\n", "not be supported too"},
		"behaviour":   {"project: cilium\ndiffers: {no-such: {why: x, source: [KEP-1]}}\n", "differs, no-such"},
		"no project":  {"", "names no project"},
		"no path":     {"project: cilium\nhealth: {port: 9879, healthz: healthz}\n", "begins with no slash"},
		"no frontend": {"project: cilium\nevidence: [\"bpftool map {adress}\"]\n", "{adress} stands for nothing"},
		"capitals":    {"project: cilium\nevidence: [\"cilium lb {Address}\"]\n", "{Address} stands for nothing"},
		"no words":    {"project: cilium\nevidence: [\" \"]\n", "a command without words"},
		"no port":     {"project: cilium\nhealth: {port: 70000}\n", "read the declaration"},
		"no YAML":     {"project: [\n", "read the declaration"},
	} {
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := declaration("existing", file)
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q on one line", name, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if d.Health.Port != 9879 {
			t.Errorf("its proxies' health is asked at %+v", d.Health)
		}
		r := d.report()
		states := map[string]conformance.State{}
		for _, f := range r.Features {
			states[f.Name] = f.State
		}
		want := map[string]conformance.State{}
		for _, f := range features() {
			want[string(f)] = "unknown"
		}
		want["nodeport-loopback"], want["sctp"], want["proxy-healthz"] = "unsupported", "supported", "unsupported"
		want["terminating-fallback"] = "unsupported"
		if !maps.Equal(states, want) || r.Implementation.Organization != "CNCF" || r.Implementation.Version != "v2" {
			t.Errorf("%v of %+v", states, r.Implementation)
		}
	}
	if _, err := declaration("existing", file+"x"); err == nil {
		t.Error("a file that is not there declares something")
	}
}

// The report has the timeout that HAProxy is given for its checks, if it is given one.
func TestBalancerOfReport(t *testing.T) {
	for profile, want := range map[string]time.Duration{"l4-fast": time.Second, "l4-strict": 2 * time.Second, "seed": 0} {
		if got := balancer(report.LB{Profile: profile, Interval: report.Duration(time.Second)}); time.Duration(got.Timeout) != want {
			t.Errorf("%s: timeout %s, want %s", profile, got.Timeout, want)
		}
	}
	if got := balancer(report.LB{Profile: "unknown"}); got != nil {
		t.Errorf("a load balancer of which nothing is known: %+v", got)
	}
}
