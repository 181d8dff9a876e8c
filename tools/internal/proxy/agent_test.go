package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/listing"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/tools/internal/call"
)

// dumps reads back what a backend keeps, where that is in the kernel.
func dumps() map[string]func(netns int) (string, error) {
	return map[string]func(int) (string, error){"nftables": nftables.Dump, "iptables": iptables.Dump, "userspace": userspace.Dump, "ebpf": dumpEBPF}
}

// dumpEBPF leaves out what goes a while after a change, or after the next start, and says which programs
// are at sockets. Where it cannot be read, as while an agent puts lost pins back one after the other, it
// is like nothing else.
func dumpEBPF(netns int) (string, error) {
	pins, err := ebpf.Folder(ebpf.Root, netns)
	if err != nil {
		return "", err
	}
	text, err := ebpf.Dump(pins)
	if err != nil {
		return "not to be read: " + err.Error(), nil
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "left over: ") {
			out.WriteString(line)
		}
	}
	left, err := ebpf.Left(netns, pins, false)
	for _, what := range left {
		if strings.Contains(what, "at the sockets") {
			fmt.Fprintln(&out, what)
		}
	}
	return out.String(), err
}

// onEach runs a test with every backend that keeps its state in the kernel.
func onEach(t *testing.T, f func(t *testing.T, backend string, dump func(*world) string)) {
	t.Helper()
	for name, read := range dumps() {
		t.Run(name, func(t *testing.T) {
			f(t, name, func(w *world) string {
				text, err := read(w.ns.FD())
				if err != nil {
					t.Fatal(err)
				}
				return text
			})
		})
	}
}

// The whole agent, from the API to the kernel: the rules of what is in the API,
// healthz that turns 200 with them, checks that follow, and rules that stay when
// it ends. A successor takes over what is there.
func TestLife(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, backend string, dump func(*world) string) {
		w := newWorld(t, theNode(), service("web", "10.96.0.1", loadBalancer), slice("web", "10.244.1.2!", "10.244.2.2"))
		p := w.start(t, "--backend="+backend)
		for _, part := range []string{"10.96.0.1", "203.0.113.7", "30080"} {
			if text := dump(w); !strings.Contains(text, part) {
				t.Errorf("%s is not in the kernel:\n%s", part, text)
			}
		}
		if text := w.output(t, "show", "services"); !strings.Contains(text, "1 => 10.244.1.2:8080 (active, local)") {
			t.Errorf("listed:\n%s", text)
		}
		w.await(t, "health check 200", func() bool { return w.get(healthCheck("")).code == http.StatusOK })
		leaves := slice("web", "10.244.1.2!~", "10.244.2.2")
		leaves.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
		w.apply(t, leaves)
		w.await(t, "health check 503", func() bool { return w.get(healthCheck("")).code == http.StatusServiceUnavailable })

		metrics := w.get("http://" + defaultMetrics + "/metrics").body
		for _, line := range []string{"plumbline_state_lost_total 0\n", "plumbline_sync_failures_total 0\n", "plumbline_services 1\n", `plumbline_sync_duration_seconds_count{complete="false"}`,
			`kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"} 1`, `kubeproxy_proxy_healthz_total{code="200"}`} {
			if !strings.Contains(metrics, line) {
				t.Errorf("the metrics have no %q", line)
			}
		}

		before := dump(w)
		p.end(t, syscall.SIGTERM)
		if w.get("http://"+healthAt+"/livez").code != 0 || w.get(healthCheck("")).code != 0 {
			t.Error("something still listens after the end")
		}
		same(t, "after the end", before, dump(w))
		w.start(t, "--backend="+backend).end(t, syscall.SIGKILL)
		same(t, "after a restart, killed", before, dump(w))
		w.apply(t, slice("web", "10.244.3.3!"), service("other", "10.96.0.2", nil))
		p = w.start(t, "--backend="+backend)
		if text := w.output(t, "show", "backends"); strings.Contains(text, "10.244.1.2") || !strings.Contains(text, "10.244.3.3") {
			t.Errorf("listed after a restart:\n%s", text)
		}
		if text := dump(w); strings.Contains(text, "10.244.1.2") || !strings.Contains(text, "10.96.0.2") {
			t.Errorf("a restart left the state of before:\n%s", text)
		}
		p.end(t, syscall.SIGTERM)
		w.output(t, "--cleanup", "--backend="+backend)
		if text := dump(w); strings.Contains(text, "10.96.0.1") {
			t.Errorf("left after --cleanup:\n%s", text)
		}
	})
}

func same(t *testing.T, when, want, got string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kernel %s (-want +got):\n%s", when, diff)
	}
}

// A restart while the own Node is missing changes nothing in the kernel, and says so; with
// the Node it goes on.
func TestNodeMissing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, backend string, dump func(*world) string) {
		w := newWorld(t, theNode(), service("web", "10.96.0.1", loadBalancer), slice("web", "10.244.1.2!", "10.244.2.2"))
		w.start(t, "--backend="+backend).end(t, syscall.SIGTERM)
		before := dump(w)
		if err := w.api.Delete(api.Nodes, "here"); err != nil {
			t.Fatal(err)
		}
		w.apply(t, service("other", "10.96.0.2", nil))
		w.launch(t, "--backend="+backend)
		w.await(t, "an Event about the Node", func() bool {
			return slices.ContainsFunc(w.api.List(api.CoreEvents), func(o api.Object) bool {
				e := o.(*corev1.Event)
				return e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == "here" && e.Reason == "NodeNotKnown"
			})
		})
		same(t, "without the Node", before, dump(w))
		if code := w.get("http://" + healthAt + "/healthz").code; code != http.StatusServiceUnavailable {
			t.Errorf("healthz says %d without the Node", code)
		}
		w.apply(t, theNode())
		w.await(t, "healthy", func() bool { return w.get("http://"+healthAt+"/healthz").code == http.StatusOK })
		if text := dump(w); !strings.Contains(text, "30080") || !strings.Contains(text, "10.96.0.2") {
			t.Errorf("with the Node:\n%s", text)
		}
	})
}

// What somebody else takes away comes back: with iptables within a poll, with all others within a
// second.
func TestRepair(t *testing.T) {
	within := map[string]time.Duration{"iptables": 5 * time.Second}
	args := map[string][]string{"iptables": {"--iptables-poll=1s"}}
	onEach(t, func(t *testing.T, backend string, dump func(*world) string) {
		w := newWorld(t, theNode(), service("web", "10.96.0.1", loadBalancer), slice("web", "10.244.1.2!"))
		w.start(t, append(args[backend], "--backend="+backend)...)
		before := dump(w)
		var took []time.Duration
		for range 3 {
			w.output(t, "damage", "--backend="+backend)
			start := time.Now()
			w.await(t, "everything back", func() bool { return dump(w) == before })
			took = append(took, time.Since(start))
		}
		t.Logf("back after %s", took)
		limit := max(within[backend], time.Second)
		if slices.Sort(took); took[1] > limit { // one alone says how busy the host is
			t.Errorf("that is not within %s", limit)
		}
		if a := w.get("http://" + defaultMetrics + "/metrics"); strings.Contains(a.body, "plumbline_state_lost_total 0\n") {
			t.Error("the metrics do not tell of it")
		}
	})
}

// The way that `show path` prints is the kernel's: it names both ends.
func TestShowPath(t *testing.T) {
	for _, backend := range backendNames() {
		t.Run(backend, func(t *testing.T) {
			w := newWorld(t, theNode(), service("web", "10.96.0.1", loadBalancer), slice("web", "10.244.1.2!"), service("other", "10.96.0.2", nil))
			w.start(t, "--backend="+backend)
			for _, frontend := range []string{"10.96.0.1:80", "tcp://203.0.113.7:80", "node:30080/TCP", nodeIP + ":30080"} {
				text := w.output(t, "show", "path", frontend)
				if !strings.Contains(text, "10.244.1.2") || strings.Contains(text, "10.96.0.2") {
					t.Errorf("the way to %s:\n%s", frontend, text)
				}
			}
		})
	}
}

// Which flavour is meant by auto, and so whether NET_RAW is needed, is for kubelet's chains to
// say, and where there are none for the program iptables.
func TestCapabilitiesOfAuto(t *testing.T) {
	need.Program(t, "iptables-legacy")
	program, err := exec.LookPath("iptables-legacy")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "iptables")); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, theNode())
	w.only([]node.Capability{node.NetAdmin})
	w.env = append(w.env, "PATH="+dir+":"+os.Getenv("PATH"))
	_, stderr, code := w.call(t, "--backend=iptables", "--node-name=here", "--kubeconfig="+w.kubeconfig)
	if want := "plumb-proxy: backend iptables needs the capability NET_RAW\n"; code != call.Failed || stderr != want {
		t.Errorf("exit %d: %s, want %s", code, stderr, want)
	}
	if err := w.ns.Do(exec.Command("iptables-nft", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT").Run); err != nil {
		t.Fatal(err)
	}
	p := w.start(t, "--backend=iptables")
	p.end(t, syscall.SIGTERM) // and with it what it said is read
	if want := "flavour=nft that=\"kubelet's chains are\""; !strings.Contains(p.log.String(), want) {
		t.Errorf("it does not say %s", want)
	}
}

// The agent does with what its backend lists and nothing else, in a container whose
// root it is: NET_ADMIN, for the legacy flavour of iptables NET_RAW as well, for
// userspace NET_BIND_SERVICE. It says what it lacks.
func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		args string
		caps []node.Capability
		want string // on standard error; empty: it works
	}{
		{"--backend=nftables", []node.Capability{node.NetAdmin}, ""},
		{"--backend=nftables", []node.Capability{node.NetRaw}, "backend nftables needs the capability NET_ADMIN"},
		{"--backend=nftables --cleanup", []node.Capability{}, "backend nftables needs the capability NET_ADMIN"},
		{"--backend=userspace", []node.Capability{node.NetAdmin, node.NetBind}, ""},
		{"--backend=userspace", []node.Capability{node.NetAdmin}, "backend userspace needs the capability NET_BIND_SERVICE"},
		{"--backend=ebpf", []node.Capability{node.NetAdmin, node.BPF}, ""},
		{"--backend=ebpf", []node.Capability{node.NetAdmin}, "backend ebpf needs the capability BPF"},
		{"--backend=iptables --iptables-flavour=nft", []node.Capability{node.NetAdmin}, ""},
		{"--backend=iptables --iptables-flavour=legacy", []node.Capability{node.NetAdmin}, "backend iptables needs the capability NET_RAW"},
		{"--backend=iptables --iptables-flavour=legacy", []node.Capability{node.NetAdmin, node.NetRaw}, ""},
		{"--backend=iptables --iptables-flavour=legacy", []node.Capability{}, "backend iptables needs the capability NET_ADMIN and NET_RAW"},
	} {
		t.Run(fmt.Sprint(c.args, c.caps), func(t *testing.T) {
			w := newWorld(t, theNode(), service("web", "10.96.0.1", loadBalancer), slice("web", "10.244.1.2!"))
			w.only(c.caps)
			args := strings.Fields(c.args)
			if c.want != "" {
				_, stderr, code := w.call(t, append(args, "--node-name=here", "--kubeconfig="+w.kubeconfig)...)
				if code != call.Failed || stderr != "plumb-proxy: "+c.want+"\n" {
					t.Errorf("exit %d: %s, want %s", code, stderr, c.want)
				}
				return
			}
			if strings.Contains(c.args, "legacy") {
				need.Program(t, "iptables-legacy")
			}
			p := w.start(t, args...)
			w.apply(t, slice("web", "10.244.1.3!"), service("other", "10.96.0.2", nil))
			w.await(t, "the change", func() bool {
				return strings.Contains(w.output(t, "show", "services"), "10.96.0.2")
			})
			if text := p.log.String(); strings.Contains(text, "level=ERROR") {
				t.Errorf("it complains:\n%s", text)
			}
		})
	}
}

// With --nodeport-addresses=all the addresses of the interfaces count, from the
// first sync on and as they come and go.
func TestNodePortAddresses(t *testing.T) {
	nodePort := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	}
	onEach(t, func(t *testing.T, backend string, dump func(*world) string) {
		w := newWorld(t, theNode(), service("web", "10.96.0.1", nodePort), slice("web", "10.244.1.2"))
		address := func(change func(netlink.Link, *netlink.Addr) error) {
			t.Helper()
			err := w.ns.Do(func() error {
				link, err := netlink.LinkByName("x")
				if err != nil {
					return err
				}
				addr, err := netlink.ParseAddr("198.51.100.7/24")
				if err != nil {
					return err
				}
				return change(link, addr)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		address(netlink.AddrAdd)
		w.start(t, "--backend="+backend, "--nodeport-addresses=all")
		if text := dump(w); !strings.Contains(text, "198.51.100.7") || !strings.Contains(text, nodeIP) {
			t.Errorf("addresses are missing after the first sync:\n%s", text)
		}
		address(netlink.AddrDel)
		w.await(t, "the address gone", func() bool { return !strings.Contains(dump(w), "198.51.100.7") })
	})
}

// What is wrong with an object is told to its owner, and concerns nobody else.
func TestEvents(t *testing.T) {
	w := newWorld(t, theNode(), service("web", "10.96.0.1", nil), slice("web", "10.244.1.2", "10.96.0.2"),
		service("other", "10.96.0.2", nil), slice("other", "10.244.1.3", "224.0.0.1"))
	w.output(t, "--init-only") // of a node that is prepared nothing is told
	w.start(t)
	reasons := func() map[string]bool {
		out := map[string]bool{}
		for _, o := range w.api.List(api.CoreEvents) {
			e := o.(*corev1.Event)
			out[e.InvolvedObject.Kind+" "+e.InvolvedObject.Name+" "+e.Reason] = true
		}
		return out
	}
	w.await(t, "an Event each", func() bool {
		got := reasons()
		return got["Service web EndpointIsServiceAddress"] && got["EndpointSlice other-1 UnusableFields"]
	})
	if got := reasons(); len(got) != 2 {
		t.Errorf("Events %v, want two", got)
	}
	if text := w.output(t, "show", "services"); !strings.Contains(text, "10.244.1.2:8080") || !strings.Contains(text, "10.244.1.3:8080") {
		t.Errorf("the good endpoints are not served:\n%s", text)
	}
}

// refuser is a kernel that does not like one frontend.
type refuser struct{ key string }

func (r refuser) Apply(_ context.Context, _, new *plan.Plan) error {
	for k := range plan.Index(new) {
		if listing.KeyText(k) == r.key {
			return fmt.Errorf("apply: %w", &plan.Refused{Frontends: map[plan.Key]error{k: errors.New("too large")}})
		}
	}
	return nil
}

// A Service that the kernel refuses gets an Event and is counted; the agent is
// healthy.
func TestRefused(t *testing.T) {
	s := api.ForTest(t, api.Config{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Apply(theNode(), service("web", "10.96.0.1", nil), service("big", "10.96.0.2", nil)); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	at := freePort(t)
	a := agent.New(agent.Config{
		Node: "here", Mode: "refuser", Metrics: at, Plan: plan.Options{Node: "here", Terminating: plan.Fallback, NoLocal: plan.Drop},
		Backend: backend.Backend{Start: func(backend.Options, *slog.Logger) backend.Running {
			return backend.Running{Target: refuser{"10.96.0.2:80/TCP"}, Close: func() error { return nil }}
		}},
		Client: client, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	told := func() bool {
		for _, o := range s.List(api.CoreEvents) {
			if e := o.(*corev1.Event); e.Reason == "RefusedByKernel" && e.InvolvedObject.Name == "big" && strings.Contains(e.Message, "too large") {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(patience); !told(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no Event about the refused Service")
		}
	}
	var text string
	lacks := func(line string) bool { return !strings.Contains(text, line) }
	lines := []string{"plumbline_refused_services 1\n", "plumbline_services 2\n", "plumbline_sync_failures_total 0\n", `plumbline_sync_duration_seconds_count{complete="true"} 1`, "plumbline_first_sync_duration_seconds "}
	for deadline := time.Now().Add(patience); text == "" || slices.ContainsFunc(lines, lacks); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the metrics have not all of %q:\n%s", lines, text)
		}
		r, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if text = string(body); errors.Join(err, r.Body.Close()) != nil {
			t.Fatal(err)
		}
	}
}

// The privileged set-up of a namespace that is not the host's own: timeouts are
// written, also lower ones; nf_conntrack_max is not ours to write, which is told,
// and an error only for who asked for it. An agent without it says what is amiss.
func TestInitOnly(t *testing.T) {
	w := newWorld(t, theNode())
	p := w.start(t)
	w.await(t, "an Event about conntrack", func() bool {
		return slices.ContainsFunc(w.events(), func(e *corev1.Event) bool {
			return e.Reason == "SysctlAmiss" && e.InvolvedObject.Name == "here" && strings.Contains(e.Message, "sysctl net.netfilter.nf_conntrack_tcp_be_liberal is 0 and not 1: ")
		})
	})
	p.end(t, syscall.SIGTERM)
	_, log, code := w.call(t, "--init-only", "--conntrack-udp-timeout=7s")
	if code != 0 || !strings.Contains(log, "written only in the host's own network namespace") {
		t.Errorf("exit %d, said:\n%s", code, log)
	}
	read := func(path string) string { return strings.TrimSpace(w.sysctl(t, path)) }
	for path, want := range map[string]string{
		"net/netfilter/nf_conntrack_udp_timeout": "7", "net/netfilter/nf_conntrack_tcp_timeout_established": "86400",
		"net/netfilter/nf_conntrack_tcp_be_liberal": "1", "net/ipv4/ip_forward": "1",
	} {
		if got := read(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	_, log, code = w.call(t, "--init-only", "--conntrack-max-per-core=1000", "--conntrack-min=0")
	if code != 1 || !strings.Contains(log, "give --conntrack-max-per-core=0") {
		t.Errorf("exit %d, said:\n%s", code, log)
	}
}
