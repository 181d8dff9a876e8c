package proxy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/tools/internal/call"
)

func TestCommandLine(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for _, c := range []struct {
		args string
		code int
		out  string // of stdout, or the one line of stderr
	}{
		{"--version", 0, "plumb-proxy "},
		{"--help", 0, "usage: plumb-proxy [flags]"},
		{"", 2, "--node-name is not given and $NODE_NAME is empty"},
		{"--node-name n --backend ipvs", 2, `--backend "ipvs": there is no such backend; one of: `},
		{"--node-name n --terminating-endpoints maybe", 2, `--terminating-endpoints "maybe": give fallback or ignore`},
		{"--node-name n --no-local-endpoints forward", 2, `--no-local-endpoints "forward": give drop or reject`},
		{"--node-name n --cluster-cidr 10.244.0.0/16,10.245.0.0", 2, `--cluster-cidr "10.245.0.0": not a network`},
		{"--node-name n --healthz-bind-address 10256", 2, `--healthz-bind-address "10256": not an IP address`},
		{"--node-name n --healthz-bind-address 127.0.0.1:99999", 2, `"127.0.0.1:99999": not an IP address and a port from 1 to 65535`},
		{"--node-name n --healthz-bind-address 127.0.0.1:0", 2, `a port from 1 to 65535`},
		{"--node-name n --healthz-bind-address 127.0.0.1:http", 2, `a port from 1 to 65535`},
		{"--node-name n --healthz-bind-address localhost:10256", 2, `not an IP address`},
		{"--init-only --cleanup", 2, "contradict each other"},
		{"--node-name n --take-over cilium", 2, `--take-over "cilium": give kube-proxy`},
		{"--init-only --take-over kube-proxy", 2, "--init-only takes nothing over"},
		{"--node-name n --detect-local NodeCIDRs", 2, `--detect-local "NodeCIDRs": give ClusterCIDR, NodeCIDR,`},
		{"--node-name n extra", 2, `unexpected argument "extra"`},
		{"--nodename n", 2, "-nodename; see plumb-proxy --help"},
		{"--node-name n --nodeport-addresses everywhere", 2, `--nodeport-addresses "everywhere": not a network`},
		{"--node-name n --metrics-bind-address 10249", 2, `--metrics-bind-address "10249": not an IP address`},
		{"--node-name n --conntrack-udp-timeout 30s", 2, "--conntrack-udp-timeout: only with --init-only"},
		{"--init-only --conntrack-udp-timeout 1500ms", 2, "--conntrack-udp-timeout 1.5s: give whole seconds"},
		{"--init-only --conntrack-tcp-timeout-close-wait -1s", 2, "--conntrack-tcp-timeout-close-wait -1s: give whole seconds"},
		{"--init-only --conntrack-max-per-core -1", 2, "--conntrack-max-per-core -1: give a number"},
		{"--node-name n --iptables-flavour nft", 2, "--iptables-flavour: only with --backend iptables"},
		{"--node-name n --backend iptables --iptables-flavour old", 2, `--iptables-flavour "old": give auto, nft or legacy`},
		{"--node-name n --backend iptables --iptables-masquerade-bit 32", 2, "--iptables-masquerade-bit 32: give a number from 0 to 31"},
		{"--node-name n --backend iptables --iptables-poll 1ms", 2, "--iptables-poll 1ms: give a second or more"},
		{"--node-name n --backend userspace --reset-tcp-connections", 2, "conntrack does not know where backend userspace sends connections"},
		{"--node-name n --backend ebpf --sockets on", 2, `--sockets "on": give auto or off`},
		{"--node-name n --sockets off", 2, "--sockets: only with --backend ebpf"},
		{"--node-name n --backend ebpf --sockets off --pod-namespaces /run", 2, "--pod-namespaces /run: with --sockets=off no socket is translated"},
		{"--node-name n --backend ebpf --sockets off --reset-tcp-connections", 2, "--reset-tcp-connections: it resets sockets, and with --sockets=off none is translated"},
		{"--node-name n --backend ebpf --pod-namespaces /nowhere", 2, "--pod-namespaces /nowhere: not a folder; give"},
		{"--node-name n --backend nftables --pod-namespaces /run", 2, "--pod-namespaces: only with --backend ebpf"},
		{"--node-name n --backend ebpf --sockets off --cgroup-root /sys/fs/cgroup", 2, "--cgroup-root /sys/fs/cgroup: --sockets=off uses none"},
		{"show", 2, "show : give services, backends or path"},
		{"show endpoints", 2, "show endpoints: give services, backends or path"},
		{"show services now", 2, `show services: unexpected argument "now"`},
		{"show path", 2, "show path: give a frontend such as 10.96.0.1:443/TCP"},
		{"show path 10.96.0.1", 2, `frontend "10.96.0.1": give an address and a port`},
		{"show backends --json", 2, "--json is for services"},
		{"show services --debug-socket plumb-proxy", 2, `--debug-socket "plumb-proxy": give an abstract unix socket, such as @plumb-proxy`},
		{"--node-name n --debug-socket @", 2, `--debug-socket "@": give an abstract unix socket`},
		{"show --verbose services", 2, "-verbose; see plumb-proxy show --help"},
		{"show --help", 0, "usage: plumb-proxy show services|backends|path"},
		{"show services --debug-socket @nobody-is-there", 1, "ask the agent at @nobody-is-there: dial unix @nobody-is-there: connect: connection refused; is plumb-proxy running on this node?"},
		{"damage --backend ipvs", 2, `damage: --backend "ipvs": there is no such backend; one of: `},
		{"damage now", 2, `damage: unexpected argument "now"`},
		{"damage --help", 0, "usage: plumb-proxy damage"},
		{"look here", 2, `look: unexpected argument "here"`},
		{"look --connect 10.96.0.1", 2, `look: --connect "10.96.0.1": give an address and a port`},
		{"look --await 1s", 2, "look: --await is about --connect"},
		{"look --await -1s --connect 10.96.0.1:1", 2, "look: --await -1s: must not be negative"},
		{"look --all", 2, "-all; see plumb-proxy look --help"},
		{"look --help", 0, "usage: plumb-proxy look"},
		{"--node-name n --kubeconfig /does/not/exist", 1, "find the API server"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(strings.Fields(c.args), &stdout, &stderr)
			if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.out) {
				t.Errorf("exit %d, want %d with %q\nstdout: %s\nstderr: %s", code, c.code, c.out, &stdout, &stderr)
			}
			if code != call.OK && (strings.Count(stderr.String(), "\n") != 1 || stdout.Len() > 0) {
				t.Errorf("a bad call or a failure must give one line: %q, %q", &stderr, &stdout)
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
		Node: "worker", Terminating: plan.Ignore, NoLocal: plan.Reject, Local: plan.ByClusterCIDR,
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")},
	}
	if diff := cmp.Diff(want, got.plan, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("plan options (-want +got):\n%s", diff)
	}
	if got.healthz != "[::]:10256" || got.metrics != "127.0.0.1:10249" {
		t.Errorf("healthz at %s, metrics at %s", got.healthz, got.metrics)
	}
}
