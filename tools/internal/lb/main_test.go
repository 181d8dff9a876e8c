package lb

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/tools/internal/call"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: x, context: {cluster: c}}]
current-context: x
`

// Bad input: exit 2, one line that names it, nothing made.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	config, junk := filepath.Join(dir, "config"), filepath.Join(dir, "junk")
	for path, text := range map[string]string{config: kubeconfig, junk: "clusters: 1\nx"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho HAProxy version 2.4.24 2024/10/31\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(dir, "no-docker.sock"))
	state := filepath.Join(dir, "state")
	good := []string{"--kubeconfig", config, "--lb-range-v4", "10.0.0.0/24", "--state-dir", state}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no Docker", nil, "no Docker engine answers at unix://" + dir},
		{"unknown flag", []string{"--nope"}, "-nope"},
		{"argument", []string{"up"}, `"up"`},
		{"class that is none", []string{"--lb-class", "a b"}, `--lb-class "a b" is not a class of load balancers`},
		{"unknown profile", []string{"--profile", "x"}, `--profile: unknown load balancer profile "x"; known: `},
		{"IPv6 as IPv4", []string{"--lb-range-v4", "fd00::/64"}, `--lb-range-v4 "fd00::/64"`},
		{"range that is none", []string{"--lb-range-v6", "fd00::"}, `--lb-range-v6 "fd00::"`},
		{"no range", []string{"--lb-range-v4", ""}, "--lb-range-v4 or --lb-range-v6 is needed"},
		{"no kubeconfig", []string{"--kubeconfig", ""}, "--kubeconfig is missing"},
		{"kubeconfig not there", []string{"--kubeconfig", filepath.Join(dir, "none")}, "none: no such file"},
		{"kubeconfig not one", []string{"--kubeconfig", junk}, "read the kubeconfig " + junk},
		{"cluster name with a slash", []string{"--cluster-name", "../x"}, `--cluster-name "../x"`},
		{"state dir too long", []string{"--state-dir", "/" + strings.Repeat("d", 80)}, "too long"},
		{"verbosity", []string{"-v", "much"}, `"much"`},
		{"unknown instances", []string{"--instances", "pods"}, `--instances "pods" is unknown; known: docker, netns, host`},
		{"flag of Docker", []string{"--instances", "host", "--image", "x", "--network", "y"}, "--image, --network does not go with --instances host"},
		{"flag of namespaces", []string{"--wire", "x"}, "--wire does not go with --instances docker"},
		{"IPv6 on the host", []string{"--instances", "host", "--lb-range-v6", "fd00::/64"}, "--lb-range-v6 does not go with --instances host"},
		{"range of the host", []string{"--instances", "host"}, "10.0.0.0/24 is not within the loopback addresses (127.0.0.0/8)"},
		{"no HAProxy", []string{"--instances", "host", "--lb-range-v4", "127.77.4.0/24", "--haproxy", "haproxy-none"}, "program haproxy-none is not on this host"},
		{"old HAProxy", []string{"--instances", "host", "--lb-range-v4", "127.77.4.0/24", "--haproxy", old}, old + ": HAProxy 2.4.24 is too old: 2.6 or newer is needed"},
		{"no wire", []string{"--instances", "netns"}, "--wire is missing"},
		{"no network of the wire", []string{"--instances", "netns", "--wire", "w"}, "--wire-v4 is missing"},
		{"network of the wire that is none", []string{"--instances", "netns", "--wire", "w", "--wire-v4", "x"}, `--wire-v4 "x" is not a CIDR`},
		{"wire that is not there", []string{"--instances", "netns", "--wire", "plumb-none", "--wire-v4", "10.0.0.0/16"}, noWire()},
		{"state dir too long for HAProxy", []string{"--instances", "host", "--lb-range-v4", "127.77.4.0/24", "--state-dir", "/" + strings.Repeat("d", 60)}, "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if rc := Main(t.Context(), append(good[:len(good):len(good)], c.args...), nil, &out); rc != call.Bad {
				t.Errorf("exit %d, want %d", rc, call.Bad)
			}
			if !strings.Contains(out.String(), c.want) || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("said %q, want one line with %q", out.String(), c.want)
			}
			if _, err := os.Stat(state); !os.IsNotExist(err) {
				t.Errorf("the state directory was made (%v)", err)
			}
		})
	}
}

// noWire is said before the wire is looked for if the user could not enter it.
func noWire() string {
	if os.Geteuid() != 0 {
		return "need root"
	}
	return "network namespace plumb-none is not there"
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if rc := Main(t.Context(), []string{"-h"}, &out, nil); rc != call.OK || !strings.Contains(out.String(), "-lb-range-v4") {
		t.Errorf("exit %d, said %q", rc, out.String())
	}
}
