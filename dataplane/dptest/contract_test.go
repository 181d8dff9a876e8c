//go:build linux

package dptest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// The contract itself is tested with a backend whose kernel is a Model. It passes;
// and for each thing the contract is there to find there is a mutant that has
// this fault and nothing else, and must fail where the table says.

// fakeCases has a frontend of each kind, and two steps.
const fakeCases = `A case for the contract's own tests.
-- options --
terminating-endpoints=fallback
-- objects.yaml --
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  sessionAffinity: ClientIP
  externalTrafficPolicy: Local
  loadBalancerSourceRanges: [192.0.2.0/24, 10.244.1.6/32]
  ports: [{port: 80, nodePort: 30080, protocol: TCP}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.10}]}}
---
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.1.2], nodeName: here, conditions: {ready: true}}
- {addresses: [10.244.2.2], nodeName: there, conditions: {ready: true}}
---
kind: Service
metadata: {name: far, namespace: default}
spec: {clusterIP: 10.96.0.11, clusterIPs: [10.96.0.11], internalTrafficPolicy: Local, externalIPs: [203.0.113.11], ports: [{port: 80, protocol: TCP}]}
---
kind: EndpointSlice
metadata: {name: far-1, namespace: default, labels: {kubernetes.io/service-name: far}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.2.2], nodeName: there, conditions: {ready: true}}
- {addresses: [10.244.2.3], nodeName: there, conditions: {ready: true}}
---
kind: ServiceCIDR
metadata: {name: kubernetes}
spec: {cidrs: [10.96.0.0/16]}
-- packets --
outside  tcp 203.0.113.10:80 10.244.1.2:8080
foreign tcp 203.0.113.10:80 drop
node     tcp 203.0.113.10:80 sticky 10.244.1.2:8080@node 10.244.2.2:8080@node
pod-b    tcp 203.0.113.10:80 sticky 10.244.1.2:8080 10.244.2.2:8080
pod-b    tcp 10.96.0.10:80   same 10.244.1.2:8080 10.244.2.2:8080
pod-b    tcp 10.96.0.10:81   reject
pod-b    tcp 10.96.0.99:80   drop
pod-b    tcp 10.96.0.11:80   drop
pod-b    tcp 203.0.113.11:80 10.244.2.2:8080@node 10.244.2.3:8080@node
-- kube-proxy --
pod-b    tcp 10.96.0.99:80   pass # a made-up source
-- delete-2 --
Service default/far
EndpointSlice default/far-1
-- then-2.yaml --
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.1.1], nodeName: here, conditions: {ready: true}}
- {addresses: [10.244.1.2], nodeName: here, conditions: {ready: true}}
- {addresses: [10.244.2.2], nodeName: there, conditions: {ready: true}}
-- packets-2 --
pod-b    tcp 10.96.0.10:80   same 10.244.1.1:8080 10.244.1.2:8080 10.244.2.2:8080
pod-b    tcp 203.0.113.11:80 pass
-- delete-3 --
EndpointSlice default/web-1
-- packets-3 --
pod-b    tcp 10.96.0.10:80   reject
outside  tcp 192.0.2.1:30080 reject
`

// otherCase has nothing in common with it.
const otherCase = `Another case for the contract's own tests.
-- objects.yaml --
kind: Service
metadata: {name: dns, namespace: default}
spec: {clusterIP: 10.96.0.53, clusterIPs: [10.96.0.53], ports: [{port: 53, protocol: UDP}]}
-- packets --
pod-b udp 10.96.0.53:53 reject
`

// stickyCase is in want of a memory: its last step lists the endpoint that was
// chosen second.
const stickyCase = `A third case for the contract's own tests.
-- objects.yaml --
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], sessionAffinity: ClientIP, ports: [{port: 80, protocol: TCP}]}
---
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.1.2], nodeName: here, conditions: {ready: true}}
-- packets --
pod-b tcp 10.96.0.10:80 10.244.1.2:8080
-- then-2.yaml --
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.1.1], nodeName: here, conditions: {ready: true}}
- {addresses: [10.244.1.2], nodeName: here, conditions: {ready: true}}
-- packets-2 --
pod-b tcp 10.96.0.10:80 same 10.244.1.1:8080 10.244.1.2:8080
`

// fakeDir has cases that show rules, beside the folders of those whose rules these are.
func fakeDir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, path), []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, backend := range []string{"nftables", "iptables", "userspace"} {
		write(backend+"/render.go", "")
	}
	for name, text := range map[string]string{"fake": fakeCases, "other": otherCase, "sticky": stickyCase} {
		write("testdata/"+name+".txtar", strings.Replace(text, "-- packets --", "-- userspace --\n-- packets --", 1))
	}
	return filepath.Join(root, "testdata")
}

// part runs a part of the contract with a fake backend.
func part(t *testing.T, name, mutant string) {
	b, dir := fakeBackend(mutant), fakeDir(t)
	if mutant == "is asked less than it says" {
		b.NoNode = mutant
	}
	switch name {
	case "LeftOut":
		LeftOut(t, dir, b)
	case "Golden":
		Golden(t, dir, fakeBackend(""), true)
		Golden(t, dir, b, false)
	case "Names":
		Names(t, b, 20)
	case "Packets":
		Packets(t, dir, b)
	case "Sequence":
		Sequence(t, dir, b)
	case "Faults":
		Faults(t, dir, b)
	case "Interrupted":
		Interrupted(t, b)
	case "Histories":
		Histories(t, b, 4)
	case "Random":
		Random(t, b, 1, 3000)
	case "Distribution":
		Distribution(t, b)
	case "Thousand":
		Thousand(t, b)
	case "Connections":
		Connections(t, b)
	case "Expiry":
		Expiry(t, b)
	default:
		t.Fatalf("no part %q", name)
	}
}

// The plan of many histories, in the loop alone.
func TestPlanHistories(t *testing.T) {
	for seed := range uint64(60) {
		m := NewModel()
		follow(t, Backend{}, seed, m, func(p *plan.Plan) string { return cmp.Diff(NewModelOf(p).String(), m.String()) })
	}
}

func TestContractPasses(t *testing.T) {
	for _, name := range []string{"Golden", "LeftOut", "Names", "Packets", "Sequence", "Faults", "Interrupted", "Histories", "Random", "Distribution", "Thousand", "Connections", "Expiry"} {
		t.Run(name, func(t *testing.T) { part(t, name, "") })
	}
}

// mutantVar asks TestMutant, in a process of its own, for one that must fail.
const mutantVar = "PLUMBLINE_MUTANT"

func TestMutant(t *testing.T) {
	asked := os.Getenv(mutantVar)
	if asked == "" {
		t.Skip("runs only as a child of TestMutantsAreCaught")
	}
	name, mutant, _ := strings.Cut(asked, "/")
	part(t, name, mutant)
}

func TestMutantsAreCaught(t *testing.T) {
	for _, tc := range []struct{ part, mutant, says string }{
		{"Golden", "loses an endpoint", "section userspace"},
		{"LeftOut", "is asked less than it says", "1 of 16 rows are left out, want 0"},
		{"Random", "is asked less than it says", "rows are left out, want 0"},
		{"Connections", "is asked less than it says", "1 of 5 rows are left out, want 0"},
		{"Names", "writes names", "names with"},
		{"Packets", "loses an endpoint", "the kernel did 10.244.2.2:8080@node"},
		{"Packets", "never masquerades", "the kernel did 10.244.2.2:8080 10.244.2.3:8080"},
		{"Packets", "rejects drops", "the kernel did reject"},
		{"Packets", "lets everybody in", "foreign tcp 203.0.113.10:80 drop: the kernel did"},
		{"Packets", "no short circuit", "node tcp 203.0.113.10:80 sticky"},
		{"Packets", "no affinity", "pod-b tcp 203.0.113.10:80 sticky"},
		{"Packets", "no ServiceCIDRs", "pod-b tcp 10.96.0.99:80 drop: the kernel did pass"},
		{"Packets", "forgets affinity", "went to 10.244.1.1:8080, and to 10.244.1.2:8080 before"},
		{"Packets", "takes over without affinity", "affinity after a restart"},
		{"Packets", "leaves a frontend", "kernel at step 2"},
		{"Sequence", "leaves a frontend", "kernel at case"},
		{"Faults", "swallows faults", "kernel at case"},
		{"Faults", "takes faults for refusals", "kernel at case"},
		{"Faults", "never takes over", "kernel at case"},
		{"Interrupted", "swallows faults", "for a fault answered: <nil>"},
		{"Interrupted", "is empty after a fault", "neither as before nor as after"},
		{"Interrupted", "never takes over", "kernel with question 1 for a fault answered and another Target's Apply"},
		{"Histories", "partial is complete", "-fresh build +by differences"},
		{"Histories", "leaves a frontend", "-fresh build +by differences"},
		{"Random", "never masquerades", "the kernel did"},
		{"Random", "lets everybody in", "the kernel did"},
		{"Random", "no short circuit", "the kernel did"},
		{"Random", "no affinity", "the kernel did"},
		{"Random", "no ServiceCIDRs", "the kernel did"},
		{"Random", "rejects drops", "the kernel did"},
		{"Random", "is empty while it changes", "while plans changed:"},
		{"Distribution", "unfair", "by chance once in"},
		{"Distribution", "loses an endpoint", "by chance once in"},
		{"Thousand", "unfair", "by chance once in"},
		{"Thousand", "loses an endpoint", "is never chosen"},
		{"Thousand", "leaves a frontend", "kernel when the Service is gone"},
		{"Connections", "cuts connections", "after other Services came the connection broke"},
		{"Connections", "takes over and cuts connections", "after another Target had taken over the connection broke"},
		{"Connections", "cleans up in the end", "new connections after the Target had ended"},
		{"Expiry", "no affinity", "before"},
		{"Expiry", "use is not counted", "before"},
		{"Expiry", "remembers for ever", "every client is where it was"},
	} {
		t.Run(tc.part+"/"+tc.mutant, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestMutant$")
			cmd.Env = append(os.Environ(), mutantVar+"="+tc.part+"/"+tc.mutant)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), tc.says) {
				t.Errorf("%v, and the output does not say %q:\n%s", err, tc.says, out)
			}
		})
	}
}
