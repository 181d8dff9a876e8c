package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

func TestCommandLine(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for _, c := range []struct {
		args string
		code int
		out  string // of stdout, or the one line of stderr
	}{
		{"--version", 0, "plumb-proxy devel"},
		{"--help", 0, "usage: plumb-proxy [flags]"},
		{"", 2, "--node-name is not given and $NODE_NAME is empty"},
		{"--node-name n --backend ipvs", 2, `--backend "ipvs": there is no such backend; one of: nftables`},
		{"--node-name n --terminating-endpoints maybe", 2, `--terminating-endpoints "maybe": give fallback or ignore`},
		{"--node-name n --no-local-endpoints forward", 2, `--no-local-endpoints "forward": give drop or reject`},
		{"--node-name n --cluster-cidr 10.244.0.0/16,10.245.0.0", 2, `--cluster-cidr "10.245.0.0": not a network`},
		{"--node-name n --healthz-bind-address 10256", 2, `--healthz-bind-address "10256": not an IP address`},
		{"--node-name n --healthz-bind-address 127.0.0.1:99999", 2, `"127.0.0.1:99999": not an IP address and a port from 1 to 65535`},
		{"--node-name n --healthz-bind-address 127.0.0.1:0", 2, `a port from 1 to 65535`},
		{"--node-name n --healthz-bind-address 127.0.0.1:http", 2, `a port from 1 to 65535`},
		{"--node-name n --healthz-bind-address localhost:10256", 2, `not an IP address`},
		{"--init-only --cleanup", 2, "contradict each other"},
		{"--node-name n extra", 2, `unexpected argument "extra"`},
		{"--nodename n", 2, "-nodename; see --help"},
		{"--node-name n --kubeconfig /does/not/exist", 1, "find the API server"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(strings.Fields(c.args), &stdout, &stderr)
			if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.out) {
				t.Errorf("exit %d, want %d with %q\nstdout: %s\nstderr: %s", code, c.code, c.out, &stdout, &stderr)
			}
			if code == exitBadCall && (strings.Count(stderr.String(), "\n") != 1 || stdout.Len() > 0) {
				t.Errorf("a bad call must give one line: %q, %q", &stderr, &stdout)
			}
		})
	}
}

func TestParse(t *testing.T) {
	env := func(string) string { return "worker" }
	got, err := parse(strings.Fields("--cluster-cidr 10.244.0.0/16,fd00:10:244::/56 --terminating-endpoints=ignore --no-local-endpoints=reject"), env)
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Options{
		Node: "worker", Terminating: plan.Ignore, NoLocal: plan.Reject,
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")},
	}
	if diff := cmp.Diff(want, got.plan, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("plan options (-want +got):\n%s", diff)
	}
	if got.healthz != "[::]:10256" {
		t.Errorf("healthz at %s", got.healthz)
	}
}

func TestSysctls(t *testing.T) {
	root := t.TempDir()
	write := func(path, value string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	const liberal, forwarding = "net/netfilter/nf_conntrack_tcp_be_liberal", "net/ipv6/conf/all/forwarding"
	is := func(path, want string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q, %v; want %s", path, got, err, want)
		}
	}
	nothing := func() error { return nil }
	refused := errors.New("operation not permitted")
	for _, load := range []func() error{nothing, func() error { return refused }} {
		err := writeSysctls(root, false, load, log)
		if err == nil || !strings.Contains(err.Error(), "nf_conntrack_tcp_be_liberal is not there") || !strings.Contains(err.Error(), "module nf_conntrack") {
			t.Errorf("without conntrack: %v, want the sysctl and the module named", err)
		}
		if load() != nil && !errors.Is(err, refused) {
			t.Errorf("got %v, want the reason %v in it", err, refused)
		}
	}
	write("net/ipv4/ip_forward", "1")
	if err := writeSysctls(root, true, func() error { write(liberal, "0"); return nil }, log); err != nil {
		t.Errorf("without IPv6, and with conntrack loaded on demand: %v", err)
	}
	is(liberal, "1")
	write(forwarding, "0")
	again := func() error { t.Error("conntrack is loaded though it is there"); return nil }
	if err := writeSysctls(root, false, again, log); err != nil {
		t.Error(err)
	}
	is(forwarding, "0")
	if err := writeSysctls(root, true, again, log); err != nil {
		t.Error(err)
	}
	is(forwarding, "1")
}

func ptr[T any](v T) *T { return &v }

// The whole agent, from the API to the kernel of a namespace: the rules of what
// is in the API, healthz that turns 200 with them, and rules that stay.
func TestAgent(t *testing.T) {
	ns := netns.ForTest(t, "agent")
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"}, ExternalTrafficPolicy: "Local",
				HealthCheckNodePort: int32(freePort(t)), Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}},
			},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr(int32(8080))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.2"}, NodeName: ptr("here")}},
		},
	)
	healthz := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	opt := options{node: "here", healthz: healthz, plan: plan.Options{Node: "here", Terminating: plan.Fallback, NoLocal: plan.Drop}}
	target := nftables.New(nftables.Config{Logger: log, NetNS: ns.FD()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- agent(ctx, opt, client, target, log) }()

	await(t, func() bool { return get("http://"+healthz+"/healthz") == 200 })
	svc, err := client.CoreV1().Services("ns").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hcnp := fmt.Sprintf("http://127.0.0.1:%d/", svc.Spec.HealthCheckNodePort)
	await(t, func() bool { return get(hcnp) == 200 })
	const rules = `ip hairpin 10.244.1.2 . 10.244.1.2
ip masquerade-node tcp . 30080
ip node-addresses 127.0.0.1
ip nodeport-inside-slots tcp . 30080 . 0 : 10.244.1.2 . 8080
ip nodeport-slots tcp . 30080 . 0 : 10.244.1.2 . 8080
ip nodeports tcp . 30080 : nodeports-1
ip nodeports-inside tcp . 30080 : inside-1
ip service-slots 10.96.0.1 . tcp . 80 . 0 : 10.244.1.2 . 8080
ip services 10.96.0.1 . tcp . 80 : services-1
`
	compare(t, ns, rules, "while the agent runs")

	sl, err := client.DiscoveryV1().EndpointSlices("ns").Get(ctx, "web-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sl.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true), Terminating: ptr(true)}
	if _, err := client.DiscoveryV1().EndpointSlices("ns").Update(ctx, sl, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return get(hcnp) == 503 })
	compare(t, ns, rules, "with the endpoint terminating")

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if get("http://"+healthz+"/livez") != 0 || get(hcnp) != 0 {
		t.Error("something still listens after the end")
	}
	compare(t, ns, rules, "after the agent ended")
}

func compare(t *testing.T, ns *netns.NS, want, when string) {
	t.Helper()
	got, err := nftables.Dump(ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kernel %s (-want +got):\n%s", when, diff)
	}
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return netip.MustParseAddrPort(ln.Addr().String()).Port()
}

func get(url string) int {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(url)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s")
		}
	}
}
