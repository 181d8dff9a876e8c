package proxy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/kubeproxy"
	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/proxyproc"
	"github.com/plumbline/plumbline/suites/stage"
	"github.com/plumbline/plumbline/tools/internal/call"
)

var kubeProxyModes = flag.String("kube-proxy", "", "take over from upstream's kube-proxy in these modes, and back: nftables,iptables")

// kubeProxy is upstream's on the node, with its rules in.
func (w *world) kubeProxy(t *testing.T, program, mode string) *proxyproc.Process {
	t.Helper()
	dir := t.TempDir()
	spec, err := proxyproc.KubeProxy(program, mode, false, proxyproc.Place{
		Dir: dir, Kubeconfig: w.kubeconfig, Node: "here", ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxyproc.Start(w.ns, dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		if said, err := os.ReadFile(p.Log()); t.Failed() && err == nil {
			t.Logf("kube-proxy said last:\n%s", said[max(0, len(said)-2000):])
		}
	})
	rules := map[string][]string{"nftables": {"nft", "list", "table", "ip", "kube-proxy"}, "iptables": {"iptables-save", "-t", "nat"}}[mode]
	want := map[string]string{"nftables": "10.96.0.10 . tcp . 80 :", "iptables": "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp"}[mode]
	w.await(t, "kube-proxy's rules", func() bool {
		var out []byte
		err := w.ns.Do(func() (err error) {
			out, err = exec.CommandContext(t.Context(), rules[0], rules[1:]...).Output()
			return err
		})
		return err == nil && strings.Contains(string(out), want)
	})
	return p
}

// A node that kube-proxy serves is given to each backend, and back: kube-proxy is ended, and
// its rules serve until the backend's own are in; it is begun again, and --cleanup takes the
// backend's away. To those that forward packets, and from those whose connections conntrack keeps,
// no new connection fails and no open one breaks.
func TestTakeOver(t *testing.T) {
	if *kubeProxyModes == "" {
		t.Skip("needs upstream's kube-proxy: -kube-proxy=nftables,iptables (make peer)")
	}
	need.Root(t)
	program, err := stage.KubernetesBinary(t.Context(), "kube-proxy", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	for mode := range strings.SplitSeq(*kubeProxyModes, ",") {
		for _, to := range backendNames() {
			t.Run(mode+" and "+to, func(t *testing.T) {
				s := newSwitched(t)
				for i := range 99 {
					name := fmt.Sprintf("more-%d", i)
					more := service(name, fmt.Sprintf("10.96.1.%d", i+1), nil)
					pods := slice(name, "10.244.1.2!", "10.244.2.2")
					pods.Ports[0].Name = ptr("")
					s.w.apply(t, more, pods)
				}
				all := backend.All(s.w.ns.FD())
				kube := s.w.kubeProxy(t, program, mode)
				for range *switches {
					var own *process
					var ready time.Time
					forwards := all[to].Keeps != backend.Process
					out := s.load(t, func() {
						if err := kube.Stop(context.Background()); err != nil {
							t.Error(err)
						}
						own = s.w.start(t, "--backend="+to, "--take-over=kube-proxy")
						ready = time.Now()
						s.w.await(t, "nothing left of kube-proxy", func() bool { // whose rules stay a second beside programs at sockets
							left, err := kubeproxy.Left(s.w.ns.FD())
							return err == nil && len(left) == 0
						})
					})
					out.judge(t, "to "+to, forwards, forwards, ready)
					out = s.load(t, func() {
						own.end(t, syscall.SIGTERM)
						kube = s.w.kubeProxy(t, program, mode)
						s.w.output(t, "--cleanup") // until then the one before serves beside it
						ready = time.Now()
					})
					out.judge(t, "back from "+to, forwards, all[to].Keeps == backend.Conntrack, ready)
					if left, err := all[to].Left(); err != nil || len(left) > 0 {
						t.Errorf("left of %s: %v, %v", to, left, err)
					}
				}
			})
		}
	}
}

// What a kube-proxy left is named in an Event and stays, unless it is asked for; while one
// runs, nothing is taken over.
func TestKubeProxysRules(t *testing.T) {
	t.Parallel()
	const rules = `table ip kube-proxy { chain services { type nat hook prerouting priority -100; }; }
table ip6 kube-proxy { }
table ip nat { chain KUBE-SERVICES { }; chain KUBE-SVC-X { }; chain KUBE-KUBELET-CANARY { }; }`
	w := newWorld(t, theNode(), service("web", "10.96.0.1", nil))
	w.nft(t, rules)
	p := w.start(t, "--backend=nftables")
	var told string
	w.await(t, "an Event about kube-proxy", func() bool {
		return slices.ContainsFunc(w.events(), func(e *corev1.Event) bool {
			told = e.Message
			return e.Reason == "LeftByAnotherProxy" && e.InvolvedObject.Name == "here"
		})
	})
	if want := "kube-proxy is on this node too, with table ip kube-proxy, chains KUBE-* of table ip nat, table ip6 kube-proxy, and is not"; !strings.HasPrefix(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	p.end(t, syscall.SIGTERM)
	w.output(t, "--cleanup")
	if text := w.nft(t, "list", "ruleset"); !strings.Contains(text, "table ip kube-proxy") || !strings.Contains(text, "KUBE-SVC-X") {
		t.Errorf("taken away though nobody asked for it:\n%s", text)
	}

	refused := func(why string, args ...string) {
		t.Helper()
		_, stderr, code := w.call(t, append([]string{"--node-name=here", "--kubeconfig=" + w.kubeconfig, "--take-over=kube-proxy"}, args...)...)
		if code != call.Failed || !strings.Contains(stderr, why) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit %d, said %q, want %q", args, code, stderr, why)
		}
	}
	end := w.called(t, "kube-proxy")
	refused("it runs on this node (process kube-proxy)")
	refused("it runs on this node (process kube-proxy)", "--cleanup")
	if err := kubeproxy.Clean(w.ns.FD()); err == nil || !strings.Contains(err.Error(), "kube-proxy runs on this node (process kube-proxy)") {
		t.Errorf("taken away while one runs: %v", err)
	}
	end()
	stop := w.answerAt(t, "127.0.0.1:10249", func(r http.ResponseWriter, _ *http.Request) { fmt.Fprintln(r, "iptables") })
	refused(`it runs on this node (who answers 127.0.0.1:10249/proxyMode with "iptables")`)
	stop()
	stop = w.sayAt(t, "127.0.0.1:10249", nil)
	refused("whether one runs cannot be found out: ask who serves 127.0.0.1:10249: ")
	stop()
	half := "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnfta"
	stop = w.sayAt(t, "127.0.0.1:10249", &half)
	refused("whether one runs cannot be found out: ask who serves 127.0.0.1:10249: read the answer: ")
	stop()
	for _, said := range []string{"", "220 mail\r\n", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:10249/\r\nContent-Length: 0\r\n\r\n"} {
		stop = w.sayAt(t, "127.0.0.1:10249", &said) // they are no kube-proxys
		w.output(t, "--cleanup", "--take-over=kube-proxy")
		w.nft(t, rules)
		stop()
	}

	w.start(t, "--backend=nftables", "--take-over=kube-proxy").end(t, syscall.SIGTERM)
	text := w.nft(t, "list", "ruleset")
	for part, want := range map[string]bool{"table ip kube-proxy": false, "table ip6 kube-proxy": false, "KUBE-S": false, "KUBE-KUBELET-CANARY": true, "10.96.0.1": true} {
		if strings.Contains(text, part) != want {
			t.Errorf("%q is there: %t, want %t", part, !want, want)
		}
	}
	w.nft(t, rules)
	p = w.start(t, "--backend=nftables") // who serves where kube-proxy would say its mode
	end = w.called(t, "kubelet")         // and the node's processes are seen
	w.output(t, "--cleanup", "--take-over=kube-proxy")
	end()
	p.end(t, syscall.SIGTERM)
	w.output(t, "--cleanup")
	if text := w.nft(t, "list", "ruleset"); strings.Contains(text, "kube-proxy") || strings.Contains(text, "KUBE-S") || strings.Contains(text, "10.96.0.1") {
		t.Errorf("left after --cleanup:\n%s", text)
	}
}

// What can be found of another is taken away, also where something else of it cannot be read.
func TestCleanAll(t *testing.T) {
	var cleaned []string
	other := func(name string, left []string, err, clean error) backend.Backend {
		return backend.Backend{
			Left:  func() ([]string, error) { return left, err },
			Clean: func() error { cleaned = append(cleaned, name); return clean },
		}
	}
	unread := errors.New("not to be read")
	some := []string{"a table"}
	var said strings.Builder
	err := cleanAll(other("own", nil, nil, nil), map[string]backend.Backend{
		"part": other("part", some, unread, nil), "twice": other("twice", some, unread, unread), "whole": other("whole", some, nil, nil),
		"nothing": other("nothing", nil, nil, nil), "stays": other("stays", some, nil, &backend.Stays{What: []string{"a chain stays"}}),
		"undone": other("undone", some, nil, &backend.Stays{What: []string{"ports stay"}, Undone: true}), "named": {Left: func() ([]string, error) { return some, nil }},
	}, slog.New(slog.NewTextHandler(&said, nil)))
	if diff := cmp.Diff([]string{"own", "part", "stays", "twice", "undone", "whole"}, cleaned); diff != "" {
		t.Errorf("cleaned (-want +got):\n%s", diff)
	}
	if want := "clean up after part: not to be read\nclean up after twice: not to be read\nclean up after undone: ports stay"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `level=WARN msg="another proxy's rules stay on this node" proxy=stays what="a chain stays"`) {
		t.Errorf("said %q", text)
	}
}

// called is a process of that name, which does nothing, until the function that it returns is called.
func (w *world) called(t *testing.T, name string) (end func()) {
	t.Helper()
	p := exec.Command(filepath.Join(t.TempDir(), name), "600")
	// By a process of its own: one that another test is starting would have this one's descriptor for writing until
	// it is executed, and nobody executes what is open for writing.
	if out, err := exec.Command("cp", "/bin/sleep", p.Path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := w.ns.Do(p.Start); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

// answerAt serves every path, until the function that it returns is called.
func (w *world) answerAt(t *testing.T, at string, answer http.HandlerFunc) (stop func()) {
	t.Helper()
	l := w.listenAt(t, at)
	s := http.Server{Handler: answer}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return func() {
		_ = s.Close()
		<-done
	}
}

// listenAt listens at an address that this test may just have left: a process that another test is starting has
// all descriptors until it is executed, and so a listener that is closed here.
func (w *world) listenAt(t *testing.T, at string) (l net.Listener) {
	t.Helper()
	w.await(t, at+" is free", func() bool {
		err := w.ns.Do(func() (err error) { l, err = net.Listen("tcp", at); return err })
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		return err == nil
	})
	return l
}

// sayAt says a text to who asks and hangs up, or is silent without one, until the function that
// it returns is called.
func (w *world) sayAt(t *testing.T, at string, text *string) (stop func()) {
	t.Helper()
	l := w.listenAt(t, at)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for text != nil {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(*text))
			_ = c.Close()
		}
	}()
	return func() {
		_ = l.Close()
		<-done
	}
}

// events are all there are.
func (w *world) events() (out []*corev1.Event) {
	for _, o := range w.api.List(api.CoreEvents) {
		out = append(out, o.(*corev1.Event))
	}
	return out
}
