package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
)

// asProgram makes the test's binary plumb-lb itself.
const asProgram = "PLUMB_LB_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		os.Exit(Main(ctx, os.Args[1:], nil, os.Stderr))
	}
	os.Exit(m.Run())
}

const (
	nodeAddr  = "127.78.60.1"
	nodePort  = 18280
	checkPort = 18281
	lbPort    = 18288
)

// foreign is a cluster of somebody else: a node of a cloud, two namespaces with a
// load balancer each, and every write noted.
type foreign struct {
	t        *testing.T
	api      *api.Server
	args     []string
	stateDir string

	mu     sync.Mutex
	writes []string
}

func newForeign(t *testing.T) *foreign {
	need.Program(t, "haproxy")
	f := &foreign{t: t, api: api.New(api.Config{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			f.mu.Lock()
			f.writes = append(f.writes, r.Method+" "+r.URL.Path)
			f.mu.Unlock()
		}
		f.api.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	dir, err := os.MkdirTemp("", "plumb-lb-") // short enough for a socket
	f.check(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "config")
	f.check(os.Chmod(dir, 0o711))
	f.check(os.WriteFile(config, api.Kubeconfig(server.URL), 0o600))
	f.stateDir = filepath.Join(dir, "lb")
	t.Cleanup(f.end)
	f.args = []string{"--kubeconfig", config, "--instances", "host", "--namespace", "mine", "--lb-range-v4", "127.77.60.0/24",
		"--profile", "l4-fast", "--cluster-name", "c", "--state-dir", f.stateDir}
	f.listen(nodeAddr, nodePort, "node")
	f.listen(nodeAddr, checkPort, "ok")
	f.check(f.api.Apply(f.node(), f.service("mine", "web"), f.service("theirs", "db")))
	return f
}

func (f *foreign) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *foreign) listen(addr string, port int, answer string) {
	f.t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", addr, port))
	f.check(err)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })}}
	s.Start()
	f.t.Cleanup(s.Close)
}

func (f *foreign) node() *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alien", Labels: map[string]string{"a": "b"}}}
	n.Spec.ProviderID = "aws:///x/i-1"
	n.Spec.Taints = []v1.Taint{{Key: "theirs", Value: "x", Effect: v1.TaintEffectPreferNoSchedule}}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: nodeAddr}}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return n
}

func (f *foreign) service(namespace, name string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			ExternalTrafficPolicy: v1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: checkPort,
			Ports: []v1.ServicePort{{Port: f.port(), NodePort: nodePort, Protocol: v1.ProtocolTCP}},
		},
	}
}

// port is one that only a capability opens, where there is one.
func (f *foreign) port() int32 {
	if os.Geteuid() == 0 {
		return 80
	}
	return lbPort
}

// start runs plumb-lb as a process of its own.
func (f *foreign) start() *exec.Cmd {
	f.t.Helper()
	c := exec.Command(os.Args[0], f.args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Stderr = f.t.Output()
	c.WaitDelay = time.Second
	f.check(c.Start())
	f.t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c
}

func (f *foreign) await(what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("waited a minute: %s", what)
		}
	}
}

func (f *foreign) ingress() string {
	o, err := f.api.Get(api.Services, "mine/web")
	f.check(err)
	if in := o.(*v1.Service).Status.LoadBalancer.Ingress; len(in) > 0 {
		return in[0].IP
	}
	return ""
}

func (f *foreign) answers(ip string) bool { return f.says(ip) == "node" }

// says is what is answered at ip; empty if nothing is.
func (f *foreign) says(ip string) string {
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/", ip, f.port()), nil)
	f.check(err)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// master is the pid of the only load balancer's HAProxy; 0 while it starts.
func (f *foreign) master() int {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.stateDir, "plumbline-lb-*", haproxy.PidFile))
	f.check(err)
	if len(files) != 1 {
		return 0
	}
	text, err := os.ReadFile(files[0])
	if errors.Is(err, fs.ErrNotExist) || len(text) == 0 {
		return 0
	}
	f.check(err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	f.check(err)
	return pid
}

// served starts plumb-lb, waits until its load balancer answers, and kills it.
func (f *foreign) served() (master int, ip string) {
	f.t.Helper()
	lb := f.start()
	f.await("the Service has no address", func() bool { return f.ingress() != "" })
	ip = f.ingress()
	f.await("no answer", func() bool { return f.answers(ip) })
	master = f.master()
	f.check(lb.Process.Kill())
	_ = lb.Wait()
	return master, ip
}

// A cluster of somebody else gets a load balancer on this host; it outlives
// plumb-lb, killed or stopped, and is found again. Nothing but the Services of the
// namespace and Events is written.
func TestHost(t *testing.T) {
	f := newForeign(t)
	master, ip := f.served()
	f.outlives(master, ip)
	lb := f.start()
	f.await("not found again", func() bool { return f.watchedBy() })
	if master <= 1 { // 0 is this process's own group
		t.Fatalf("no process to kill: %d", master)
	}
	f.check(syscall.Kill(master, syscall.SIGKILL))
	f.await("it is not back", func() bool { return f.master() != 0 && f.master() != master && f.answers(ip) })
	if f.ingress() != ip {
		t.Errorf("address %s, was %s", f.ingress(), ip)
	}

	f.check(lb.Process.Signal(syscall.SIGTERM))
	if err := lb.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	f.outlives(f.master(), ip)
	master = f.master()
	f.start()
	f.check(f.api.Delete(api.Services, "mine/web"))
	f.await("the Service is not gone", func() bool { _, err := f.api.Get(api.Services, "mine/web"); return err != nil })
	// A process that ended and that nobody asked has no command line any more.
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", master)); err == nil && len(cmdline) > 0 || f.answers(ip) {
		t.Errorf("HAProxy runs on (%v)", err)
	}
	left, err := filepath.Glob(filepath.Join(f.stateDir, "plumbline-lb-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	f.checkWrites()
}

// At a hangup the load balancer gets a new worker under the same master, which answers from its first
// moment on: it knows what the old one knew of nodes.
func TestReloadAtHangup(t *testing.T) {
	f := newForeign(t)
	lb := f.start()
	f.await("the Service has no address", func() bool { return f.ingress() != "" })
	ip := f.ingress()
	f.await("no answer", func() bool { return f.answers(ip) })
	dirs, err := filepath.Glob(filepath.Join(f.stateDir, "plumbline-lb-*"))
	f.check(err)
	client := haproxy.NewClient(dirs[0])
	master := f.master()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A master that has started its worker executes itself anew, and is not there for that moment.
	if by, err := client.Master(ctx); err != nil || by != master {
		t.Fatalf("who listens is %d, the master %d, %v", by, master, err)
	}
	before, err := client.Running(t.Context())
	f.check(err)
	f.check(lb.Process.Signal(syscall.SIGHUP))
	after, err := client.Await(t.Context(), func(r haproxy.Running) bool { return r.PID != before.PID })
	f.check(err)
	for i, s := range after.Servers {
		if !s.Up || len(after.Servers) != len(before.Servers) {
			t.Errorf("server %d is %+v after the reload, was %+v", i, s, before.Servers)
		}
	}
	for range 20 {
		if !f.answers(ip) {
			t.Fatal("no answer after a reload")
		}
	}
	if f.master() != master {
		t.Errorf("master %d, was %d", f.master(), master)
	}
	f.check(lb.Process.Signal(syscall.SIGTERM))
	if err := lb.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
}

// A node whose address changes is followed, and one that gets its address late is used.
func TestNodeAddressIsFollowed(t *testing.T) {
	f := newForeign(t)
	late := f.node()
	late.Status.Addresses = nil
	f.check(f.api.Apply(late))
	f.start()
	f.await("the Service has no address", func() bool { return f.ingress() != "" })
	ip := f.ingress()
	if f.answers(ip) {
		t.Fatal("an answer without a node that has an address")
	}
	f.check(f.api.Apply(f.node()))
	f.await("the node that got its address is not used", func() bool { return f.answers(ip) })
	master := f.master()

	const moved = "127.78.60.2"
	f.listen(moved, nodePort, "moved")
	f.listen(moved, checkPort, "ok")
	node := f.node()
	node.Status.Addresses[0].Address = moved
	f.check(f.api.Apply(node))
	f.await("the node is asked at its old address", func() bool { return f.says(ip) == "moved" })
	if f.ingress() != ip || f.master() != master {
		t.Errorf("address %s, was %s; HAProxy %d, was %d", f.ingress(), ip, f.master(), master)
	}
}

// With a class of our own, Services without one, of another, and whatever has a finalizer of
// another load balancer's, are none of ours; ours is served, and cleaned up when it becomes
// of another type, also by a plumb-lb that was not there when that happened.
func TestClass(t *testing.T) {
	f := newForeign(t)
	ours, others := "example.com/ours", "example.com/others"
	web := f.service("mine", "web")
	web.Spec.LoadBalancerClass = &ours
	theirs := f.service("mine", "theirs")
	theirs.Spec.LoadBalancerClass = &others
	cloud := f.service("mine", "cloud")
	cloud.Finalizers = []string{helpers.LoadBalancerCleanupFinalizer}
	was := f.service("mine", "was-clouds")
	was.Spec.Type, was.Finalizers = v1.ServiceTypeNodePort, cloud.Finalizers
	f.check(f.api.Apply(web, theirs, cloud, was, f.service("mine", "none")))
	f.args = append(f.args, "--lb-class", ours)
	lb := f.start()
	f.await("the Service has no address", func() bool { return f.ingress() != "" })
	ip := f.ingress()
	f.await("no answer", func() bool { return f.answers(ip) })
	f.checkWrites()

	f.check(lb.Process.Kill())
	lb.Wait()
	o, err := f.api.Get(api.Services, "mine/web")
	f.check(err)
	node := o.(*v1.Service).DeepCopy()
	node.Spec.Type, node.Spec.LoadBalancerClass = v1.ServiceTypeNodePort, nil
	f.check(f.api.Apply(node))
	f.start()
	f.await("it is not cleaned up", func() bool {
		o, err := f.api.Get(api.Services, "mine/web")
		f.check(err)
		svc := o.(*v1.Service)
		return len(svc.Finalizers) == 0 && len(svc.Status.LoadBalancer.Ingress) == 0
	})
	if f.answers(ip) {
		t.Error("it is served still")
	}
	f.checkWrites()
}

// outlives wants the HAProxy of an address to go on without a plumb-lb. Its checks
// may have failed on a busy host: it serves when they pass again.
func (f *foreign) outlives(master int, ip string) {
	f.t.Helper()
	f.await("it does not outlive plumb-lb", func() bool { return f.answers(ip) })
	if now := f.master(); now != master || syscall.Kill(now, 0) != nil {
		f.t.Errorf("HAProxy is process %d, was %d", now, master)
	}
}

// end ends the load balancers that a test left that failed.
func (f *foreign) end() {
	ctx := context.Background() // t's is over
	h, err := instance.NewHost(instance.ProcessOptions{StateDir: f.stateDir, Program: "haproxy"})
	f.check(err)
	f.check(h.Adopt())
	left, err := h.List(ctx)
	f.check(err)
	for _, i := range left {
		f.check(h.Stop(ctx, i.Name))
	}
	f.check(h.Close())
}

// watchedBy says that a plumb-lb serves again: its log socket is bound by then.
func (f *foreign) watchedBy() bool {
	files, err := filepath.Glob(filepath.Join(f.stateDir, "plumbline-lb-*", haproxy.LogSocket))
	f.check(err)
	for _, file := range files {
		if c, err := net.Dial("unix", file); err == nil {
			c.Close()
			return true
		}
	}
	return false
}

func (f *foreign) checkWrites() {
	f.t.Helper()
	o, err := f.api.Get(api.Nodes, "alien")
	f.check(err)
	want, got := f.node(), o.(*v1.Node)
	if d := cmp.Diff(want.Spec, got.Spec) + cmp.Diff(want.Labels, got.Labels) + cmp.Diff(want.Status, got.Status); d != "" {
		f.t.Errorf("the node was changed (-want +got):\n%s", d)
	}
	o, err = f.api.Get(api.Services, "theirs/db")
	f.check(err)
	if s := o.(*v1.Service); len(s.Status.LoadBalancer.Ingress) > 0 || slices.Contains(s.Finalizers, helpers.LoadBalancerCleanupFinalizer) {
		f.t.Errorf("the Service of another namespace was touched: %+v", s)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.writes) == 0 {
		f.t.Error("no write was noted")
	}
	for _, w := range f.writes {
		if !strings.HasPrefix(w, "PATCH /api/v1/namespaces/mine/services/web/status") && !strings.Contains(w, "/api/v1/namespaces/mine/events") {
			f.t.Errorf("wrote %s", w)
		}
	}
}
