package lbprovider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// processes runs the real HAProxy as child processes on loopback addresses,
// as instance.Docker does in containers: a crash starts it anew, and who asks
// later (another provider) finds it.
type processes struct {
	t  *testing.T
	mu sync.Mutex // guards the fields below
	// ps by name
	ps map[string]*process
	// foreign addresses in use by others
	foreign map[netip.Addr]string
	// starts counts processes, also those after a crash
	starts int
	// failStarts is how many calls of Start fail from now on
	failStarts int
	onExit     func(instance.Event)
}

type process struct {
	spec    instance.Spec
	cmd     *exec.Cmd
	stopped bool
	done    chan struct{} // the supervisor ended
}

func newProcesses(t *testing.T) *processes {
	need.Program(t, "haproxy")
	p := &processes{t: t, ps: map[string]*process{}, foreign: map[netip.Addr]string{}, onExit: func(instance.Event) {}}
	t.Cleanup(func() {
		for _, name := range p.names() {
			if err := p.Stop(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func (p *processes) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for n := range p.ps {
		out = append(out, n)
	}
	return out
}

func (p *processes) List(context.Context) ([]instance.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []instance.Instance
	for n, pr := range p.ps {
		out = append(out, instance.Instance{Name: n, Service: pr.spec.Service, UID: pr.spec.UID, Addrs: pr.spec.Addrs, Running: true})
	}
	return out, nil
}

func (p *processes) Matches(i instance.Instance, s instance.Spec) bool {
	return slices.Equal(i.Addrs, s.Addrs)
}

func (p *processes) Taken(context.Context) (map[netip.Addr]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := map[netip.Addr]string{}
	for a, who := range p.foreign {
		taken[a] = who
	}
	for n, pr := range p.ps {
		for _, a := range pr.spec.Addrs {
			taken[a] = n
		}
	}
	return taken, nil
}

func (p *processes) Start(_ context.Context, s instance.Spec) error {
	pr := &process{spec: s, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failStarts > 0 {
		p.failStarts--
		return errors.New("start: told to fail")
	}
	if err := p.spawn(pr); err != nil {
		return err
	}
	p.ps[s.Name] = pr
	go p.supervise(pr)
	return nil
}

// spawn is called with mu held.
func (p *processes) spawn(pr *process) error {
	d := pr.spec.Dir
	pr.cmd = exec.Command("haproxy", "-W", "-db", "-S", d+"/master.sock,mode,600", "-f", d+"/haproxy.cfg")
	pr.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	pr.cmd.Stderr = &testLog{t: p.t}
	p.starts++
	return pr.cmd.Start()
}

func (p *processes) supervise(pr *process) {
	defer close(pr.done)
	for {
		err := pr.cmd.Wait()
		p.mu.Lock()
		if pr.stopped {
			p.mu.Unlock()
			return
		}
		p.onExit(instance.Event{Name: pr.spec.Name, Service: pr.spec.Service, Kind: instance.Ended, At: time.Now(), Detail: fmt.Sprint(err)})
		err = p.spawn(pr)
		p.mu.Unlock()
		if err != nil {
			p.t.Errorf("start HAProxy again: %v", err)
			return
		}
	}
}

func (p *processes) Stop(_ context.Context, name string) error {
	p.mu.Lock()
	pr, ok := p.ps[name]
	delete(p.ps, name)
	if !ok {
		p.mu.Unlock()
		return nil
	}
	pr.stopped = true
	err := syscall.Kill(-pr.cmd.Process.Pid, syscall.SIGKILL) // master and workers
	p.mu.Unlock()
	<-pr.done
	return err
}

// crash kills the worker of the only HAProxy, as a segfault would.
func (p *processes) crash(pid int) {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		p.t.Fatalf("kill the worker: %v", err)
	}
}

// testLog passes a process's output to the test's log, up to the test's end.
type testLog struct {
	t *testing.T
}

func (l *testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Logf("%s", bytes.TrimSpace(b))
	}
	return len(b), nil
}

// backend is a node: a workload on its nodePort and a healthCheckNodePort.
type backend struct {
	node    *v1.Node
	healthy atomic.Bool
	served  atomic.Int64
}

const (
	nodePort  = 18180
	checkPort = 18181
)

// freebind listens on the IPv6 address of a bridge that has no carrier yet.
var freebind = net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) (err error) {
	if network != "tcp6" {
		return nil
	}
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	}); cerr != nil {
		return cerr
	}
	return err
}}

// newBackend listens on addr; with listen false the nodePort refuses.
func newBackend(t *testing.T, name, addr string, healthy, listen bool) *backend {
	t.Helper()
	b := &backend{node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	b.node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: addr}}
	b.healthy.Store(healthy)
	serve := func(port int, h http.HandlerFunc) {
		l, err := freebind.Listen(t.Context(), "tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("node %s: %v", name, err)
		}
		s := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
		go func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("node %s: %v", name, err)
			}
		}()
		t.Cleanup(func() { s.Close() })
	}
	if listen {
		serve(nodePort, func(w http.ResponseWriter, _ *http.Request) {
			b.served.Add(1)
			fmt.Fprint(w, name)
		})
	}
	serve(checkPort, func(w http.ResponseWriter, _ *http.Request) {
		if !b.healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return b
}

func nodesOf(bs ...*backend) []*v1.Node {
	var out []*v1.Node
	for _, b := range bs {
		out = append(out, b.node)
	}
	return out
}

// quick is l4-strict with checks every 300 ms, to keep tests short.
func quick() haproxy.Profile {
	p := haproxy.Profiles()["l4-strict"]
	p.Inter = 300 * time.Millisecond
	return p
}

// rig is a provider over processes.
type rig struct {
	*Provider
	t        *testing.T
	ps       *processes
	stateDir string
	records  string
	cleared  []string // Services whose status was cleared
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, ps: newProcesses(t), records: t.TempDir()}
	// t.TempDir is too long for the address of a socket.
	dir, err := os.MkdirTemp("", "plumb-lb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r.stateDir = dir
	r.restart()
	t.Cleanup(func() { r.kill() })
	return r
}

// restart is the provider dying and coming back.
func (r *rig) restart() {
	r.t.Helper()
	if r.Provider != nil {
		r.kill()
	}
	log := slog.New(slog.NewTextHandler(&testLog{t: r.t}, nil))
	rec, err := NewRecorder(r.records, log)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ps.mu.Lock()
	r.ps.onExit = rec.Instance
	r.ps.mu.Unlock()
	r.Provider = New(Config{
		Cluster: "test", Profile: quick(), StateDir: r.stateDir, BindAddress: true,
		Ranges: map[lbplan.Family]netip.Prefix{
			lbplan.V4: netip.MustParsePrefix("127.77.0.0/24"),
			lbplan.V6: netip.MustParsePrefix("::1/128"), // nothing usable
		},
		Instances: r.ps, Machines: fakeMachines{}, Recorder: rec, Log: log,
		ClearStatus: func(_ context.Context, svc *v1.Service) error {
			r.cleared = append(r.cleared, svc.Name)
			return nil
		},
	})
}

// kill is the provider dying.
func (r *rig) kill() {
	r.t.Helper()
	if err := r.balancer.Recorder.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.Provider = nil
}

func (r *rig) ensure(svc *v1.Service, bs ...*backend) string {
	r.t.Helper()
	st, err := r.EnsureLoadBalancer(r.t.Context(), "test", svc, nodesOf(bs...))
	if err != nil {
		r.t.Fatal(err)
	}
	return st.Ingress[0].IP
}

// running asks the HAProxy of svc what it runs.
func (r *rig) running(svc *v1.Service) haproxy.Running {
	r.t.Helper()
	now, err := r.client(svc).Running(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return now
}

func (r *rig) client(svc *v1.Service) *haproxy.Client {
	return haproxy.NewClient(filepath.Join(r.stateDir, r.balancer.name(svc)))
}

// awaitUp waits until the server of node is UP or not.
func (r *rig) awaitUp(svc *v1.Service, node string, up bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	now, err := r.client(svc).Await(ctx, func(now haproxy.Running) bool {
		return slices.ContainsFunc(now.Servers, func(s haproxy.ServerState) bool { return s.Node() == node && s.Up == up })
	})
	if err != nil {
		r.t.Fatalf("server %s does not become up=%t: %v, servers %+v", node, up, err, now.Servers)
	}
}

func testService(mutate ...func(*v1.Service)) *v1.Service {
	svc := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID("uid-web")},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			ExternalTrafficPolicy: v1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: checkPort,
			Ports: []v1.ServicePort{{Port: 18188, NodePort: nodePort, Protocol: v1.ProtocolTCP}},
		},
	}
	for _, m := range mutate {
		m(svc)
	}
	return svc
}

// dial opens one connection that lives for the test.
func dial(t *testing.T, ip string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", net.JoinHostPort(ip, "18188"), 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask makes one request on a new connection; from is the source address.
func ask(ctx context.Context, from, ip string, port int32) (body, src string, err error) {
	d := net.Dialer{Timeout: 2 * time.Second}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(int(port))))
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	src = c.LocalAddr().String()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", src, err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", src, err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return "", src, err
	}
	head, body, ok := strings.Cut(string(answer), "\r\n\r\n")
	if !ok || !strings.Contains(head, " 200 ") {
		return "", src, fmt.Errorf("no answer: %q", answer)
	}
	return body, src, nil
}

type fakeMachines map[string]instance.Machine

func (f fakeMachines) Machine(_ context.Context, node string) (instance.Machine, bool, error) {
	m, ok := f[node]
	return m, ok, nil
}
