package conformance

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/report/render/rendertest"
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

// sample is a run with every result, at MUST and at SHOULD.
func sample() Report {
	ms := func(n int) Duration { return Duration(n) * Duration(time.Millisecond) }
	return Report{
		Implementation: Implementation{
			Organization: "Kubernetes", Project: "kube-proxy", URL: "https://kubernetes.io", Version: "v1.36.3", Contact: []string{"sig-network"},
			Mode: "nftables", ConfigDigest: "sha256:0123", Images: []string{"registry.k8s.io/kube-proxy@sha256:4567"},
		},
		Harness: Harness{Version: "v0.4.0", Commit: "121533f"},
		Date:    time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Duration: Duration(9*time.Minute + 3*time.Second), Seed: 1700000000,
		Phases: []Phase{{"cluster up", 0, ms(12345)}, {"dataplane installed", ms(12345), ms(1200)}, {"behaviours", ms(14000), ms(400000)}},
		Chosen: 7, Of: 7, Command: "make conformance DATAPLANE=kube-proxy-nftables CLUSTER=kind SEED=1700000000",
		Environment: Environment{
			Cluster: "kind", Kubernetes: "v1.36.3", NodeImage: "kindest/node@sha256:89ab", Kernel: "6.18.1", OS: "Debian 13", CPUs: 2,
			CNI: "kindnet v1.8.0", IPFamily: "dual", Nodes: 4, Zones: 3,
			LB:    &LB{Kind: "haproxy", Profile: "l4-strict", IPMode: "Proxy", Interval: ms(2000), Timeout: ms(1000), Fall: 3, Rise: 1, Path: "/healthz"},
			Noise: &Noise{Attempts: 4000, Failures: 0, P99: ms(3)}, FollowWithin: ms(30000),
		},
		Features: []Feature{
			{Name: "sctp", State: FeatureUnsupported, Reason: "this kernel has no SCTP"},
			{Name: "udp", State: FeatureSupported},
			{Name: "zones", State: FeatureUnknown},
		},
		Documented: []Documented{
			{Test: "terminating-fallback", Why: "It keeps to terminating endpoints only where IPv6 is off.", Source: []string{"https://kubernetes.io/issue/1", "KEP-1669"}},
			{Test: "topology-zone", Why: "It knows no zones.", Source: []string{"KEP-2433"}},
		},
		Tests: []Test{
			{ID: "terminating-fallback", Title: "With no ready endpoint, serving terminating ones are used.", IPFamily: "IPv6", Profile: "Terminating", Level: Must,
				Source: []string{"KEP-1669"}, Promised: []string{"KEP: “all traffic should be sent to terminating Pods that are still Ready.”"}, Result: Fail, Reason: "40 of 200 attempts: timeout, want an answer of pod-a\nseen from node-2", Attempts: 200, Sent: "200 attempts by TCP, from node-2 (node node-2 in zone-b, fd00::2) to [fd01::1]:80/tcp (ClusterIP of Service s1)", Came: "200: 160 ok (pod-a 160), 40 timeout",
				Steps: []Step{
					{At: ms(12), Did: "made Service s1: ClusterIP, fd01::1, ports http 80/TCP"},
					{At: ms(20), Did: "wrote EndpointSlice s1-a: fd00:1::1 (on node-1, not ready, serving terminating); ports 8080/TCP"},
					{At: ms(31000), Did: "node-2 dialled [fd01::1]:80/tcp; wanted answers of pod-a alone", Came: "30 times since 51ms, at last: 40 of 200 attempts: timeout | " + rendertest.Evil, Wrong: true},
				},
				Legend: []Named{{"fd01::1", "ClusterIP of Service s1"}, {"fd00:1::1", "pod pod-a on node-1"}, {"fd00::2", "node node-2 in zone-b"}},
				Delay:  ms(31000), Duration: ms(33000),
				Evidence: []string{"terminating-fallback/ruleset.txt", "terminating-fallback/failing.pcap", "terminating-fallback/gone.txt"}},
			{ID: "terminating-fallback", Title: "With no ready endpoint, serving terminating ones are used.", IPFamily: "IPv4", Profile: "Terminating", Level: Must,
				Source: []string{"KEP-1669"}, Result: Pass, Attempts: 200, Delay: ms(12), Duration: ms(210),
				Streams: []Stream{
					{Client: "pod c1", Target: "10.96.0.7:80", Rate: 50, Sent: 500, Failed: 3, Outages: []Outage{{ms(2100), ms(60), 3}}, P50: ms(1), P99: ms(4), Max: ms(9)},
					{Client: "node-2", Target: "10.96.0.7:80", Rate: 12.5, Sent: 100},
				}},
			{ID: "clusterip-pod", Title: "A pod reaches a ClusterIP.", Profile: "Core", Level: Must, Source: []string{"Service docs", "KEP-3866"},
				Upstream: "Services should serve a basic endpoint from pods", Result: Pass, Attempts: 1000, Duration: ms(400)},
			{ID: "clusterip-undefined-port", Title: "A port that is not defined is refused.", Profile: "Core", Level: Should, Source: []string{"KEP-3866"},
				Result: Fail, Reason: "dropped, want refused", Attempts: 10, Duration: ms(1400), Evidence: []string{"ruleset.txt"}},
			{ID: "sctp-clusterip", Title: "SCTP reaches a ClusterIP.", Profile: "SCTP", Level: Must, Source: []string{"KEP-614"},
				Features: []string{"sctp"}, Result: Unsupported, Reason: "this kernel has no SCTP"},
			{ID: "topology-zone", Title: "Zone hints are followed.", Profile: "Topology", Level: Must, Source: []string{"KEP-2433"},
				Result: Skip, Reason: "the cluster has one zone"},
			{ID: "affinity-restart", Title: "Affinity survives a restart of the proxy.", Profile: "Affinity", Level: Should,
				Result: Inconclusive, Reason: "3 of 20 control attempts failed", Attempts: 20, Evidence: []string{"../outside.txt"}},
			{ID: "affinity-clientip", Title: rendertest.Evil, Profile: "Affinity", Level: Must, Source: []string{rendertest.Evil}, Result: Inconclusive, Reason: rendertest.Evil, Evidence: []string{rendertest.Evil}},
		},
	}
}

// evidence lays the sample's evidence into a folder.
func evidence(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"terminating-fallback/ruleset.txt":  "table ip kube-proxy {\n\tchain x { # </pre><script>alert(2)</script>\x1b[2J ]]>\n\t}\n}\n",
		"terminating-fallback/failing.pcap": "\xd4\xc3\xb2\xa1\x02\x00\x04\x00",
		"ruleset.txt":                       "no rule\n",
		"../outside.txt":                    "secret",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// written is the sample as Write leaves it.
func written(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "results")
	evidence(t, dir)
	if err := Write(dir, sample()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFilesGolden(t *testing.T) {
	dir := written(t)
	for _, name := range []string{JSONFile, YAMLFile, JUnitFile, MarkdownFile, HTMLFile} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, b)
	}
}

// other is a second report with other results.
func other() Report {
	r := sample()
	r.Implementation.Mode, r.Environment.Cluster = "iptables", "lab"
	r.Tests = r.Tests[1:6]
	r.Tests[2].Result, r.Tests[2].Reason = Pass, ""
	r.Error = "apply x: no\nremove y: no"
	r.Tests = append(r.Tests, Test{ID: "udp-stale", Title: "A stale UDP flow is removed.", Profile: "UDP", Level: Must, Result: Pass})
	return r
}

func TestMatrixGolden(t *testing.T) {
	same := sample()
	same.Date = same.Date.Add(time.Hour)
	same.Environment.Cluster = "lab"
	again := same
	again.Date = again.Date.AddDate(0, 0, 1)
	got := Matrix([]Report{sample(), same, other(), again})
	golden(t, "matrix.md", []byte(got))
	if Matrix([]Report{again, other(), same, sample()}) != got {
		t.Error("the order of the reports shows")
	}
}

func TestTableGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, sample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.Bytes())
}

// TestEndedEarly: a run that found failures before it ended early says both.
func TestEndedEarly(t *testing.T) {
	r := sample()
	r.Error = "interrupted"
	var b bytes.Buffer
	if err := Table(&b, r); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"table": b.String(), MarkdownFile: string(markdown(Complete(r)))} {
		if !strings.Contains(text, "interrupted") || !strings.Contains(text, "1 MUST failed") {
			t.Errorf("%s lacks one of the two", name)
		}
	}
}

func TestPluginGolden(t *testing.T) {
	text, err := Plugin("registry.example:5000/plumb-conformance@sha256:0123", "--ip-family=ipv4", "--focus=a: b\n|")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "plugin.yaml", []byte(text))
}

// TestPluginRuns: what a kubelet would run is the image and the flags that were given.
func TestPluginRuns(t *testing.T) {
	const image, flag = "registry.example/plumb-conformance:v1", "--focus='a: \"b\n|"
	text, err := Plugin(image, flag)
	if err != nil {
		t.Fatal(err)
	}
	var got plugin
	if err := yaml.UnmarshalStrict([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Image != image || got.Spec.Args[len(got.Spec.Args)-1] != flag || !slices.Contains(got.Spec.Args, "--probe-image="+image) {
		t.Errorf("image %q, arguments %q; want %s and, last, %q", got.Spec.Image, got.Spec.Args, image, flag)
	}
	if at := got.Spec.VolumeMounts; len(at) != 1 || at[0].Name != "results" || !slices.Contains(got.Spec.Args, "--results="+at[0].MountPath) {
		t.Errorf("mounts %v: results go elsewhere: %q", at, got.Spec.Args)
	}
}

func TestPluginRefuses(t *testing.T) {
	for _, image := range []string{"", " ", "--image", "a b", "a\n", "a\nb: c", "'a'", "é"} {
		if text, err := Plugin(image); err == nil || !strings.Contains(err.Error(), "is no name of an image") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\n%s", image, err, text)
		}
	}
}
