package balancer

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
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// processes is instance.Host, the real HAProxy as processes on loopback addresses,
// with what goes wrong.
type processes struct {
	*instance.Host
	mu sync.Mutex // guards the fields below
	// foreign addresses in use by others
	foreign map[netip.Addr]string
	// failStarts is how many calls of Start fail from now on
	failStarts int
}

// newProcesses finds what an earlier one left.
func newProcesses(t *testing.T, stateDir string, addrs netip.Prefix) *processes {
	t.Helper()
	need.Program(t, "haproxy")
	h, err := instance.NewHost(instance.ProcessOptions{
		StateDir: stateDir, Program: "haproxy", Ranges: []netip.Prefix{addrs},
		Log: slog.New(slog.NewTextHandler(&testLog{t: t}, nil)),
	})
	if err == nil {
		err = h.Adopt()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &processes{Host: h, foreign: map[netip.Addr]string{}}
}

func (p *processes) names(t *testing.T) []string {
	t.Helper()
	list, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range list {
		out = append(out, i.Name)
	}
	return out
}

func (p *processes) Taken(ctx context.Context) (map[netip.Addr]string, error) {
	taken, err := p.Host.Taken(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for a, who := range p.foreign {
		taken[a] = who
	}
	return taken, err
}

func (p *processes) Start(ctx context.Context, s instance.Spec) error {
	p.mu.Lock()
	fail := p.failStarts > 0
	if fail {
		p.failStarts--
	}
	p.mu.Unlock()
	if fail {
		return errors.New("start: told to fail")
	}
	return p.Host.Start(ctx, s)
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
	here := func(f func() error) error { return f() }
	return newBackendIn(t, here, name, addr, healthy, listen)
}

// newBackendIn listens where do runs what it is given.
func newBackendIn(t *testing.T, do func(func() error) error, name, addr string, healthy, listen bool) *backend {
	t.Helper()
	b := &backend{node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	b.node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: addr}}
	b.healthy.Store(healthy)
	serve := func(port int, h http.HandlerFunc) {
		var l net.Listener
		if err := do(func() (err error) {
			l, err = freebind.Listen(t.Context(), "tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
			return err
		}); err != nil {
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
func quick() profile.Profile {
	p, err := profile.Parse("l4-strict")
	if err != nil {
		panic(err)
	}
	p.Interval = 300 * time.Millisecond
	return p
}

// rig is a provider over processes.
type rig struct {
	*Fleet
	t        *testing.T
	ps       *processes
	stop     func() // ends what looks after the processes
	stateDir string
	addrs    netip.Prefix // of load balancers
	records  string
	cleared  []string // Services whose status was cleared
}

func newRig(t *testing.T) *rig {
	return newRigAt(t, "127.77.0.0/24")
}

// newRigAt is a rig with load balancers at addresses of its own, for a test beside others.
func newRigAt(t *testing.T, addrs string) *rig {
	r := &rig{t: t, records: t.TempDir(), stateDir: stateDir(t), addrs: netip.MustParsePrefix(addrs)}
	r.restart()
	t.Cleanup(func() {
		for _, name := range r.ps.names(t) {
			if err := r.ps.Stop(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
		r.kill()
	})
	return r
}

// stateDir is one that HAProxy's user can reach, and whose path is short enough
// for the address of a socket, which t.TempDir is not.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "plumb-lb-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// restart is the provider dying and coming back.
func (r *rig) restart() {
	r.t.Helper()
	r.kill()
	log := slog.New(slog.NewTextHandler(&testLog{t: r.t}, nil))
	rec, err := records.New(r.records, log)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ps = newProcesses(r.t, r.stateDir, r.addrs)
	r.Fleet = New(Config{
		Cluster: "test", Profile: quick(), StateDir: r.stateDir, BindAddress: true,
		Ranges: map[lbplan.Family]netip.Prefix{
			lbplan.V4: r.addrs,
			lbplan.V6: netip.MustParsePrefix("::1/128"), // nothing usable
		},
		Instances: r.ps, Recorder: rec, Log: log,
		ClearStatus: func(_ context.Context, svc *v1.Service) error {
			r.cleared = append(r.cleared, svc.Name)
			return nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	// As Follow, but nobody revives.
	wg.Go(func() {
		r.ps.Watch(ctx, func(e instance.Event) {
			if e.Kind != instance.Removed {
				rec.Instance(e)
			}
		})
	})
	wg.Go(func() { r.endDrains(ctx) })
	r.stop = func() { cancel(); wg.Wait() }
}

// kill is the provider dying, if it is not dead.
func (r *rig) kill() {
	r.t.Helper()
	if r.Fleet == nil {
		return
	}
	r.stop()
	if err := errors.Join(r.ps.Close(), r.cfg.Recorder.Close()); err != nil {
		r.t.Fatal(err)
	}
	r.Fleet = nil
}

func (r *rig) ensure(svc *v1.Service, bs ...*backend) string {
	r.t.Helper()
	addrs, err := r.Of(svc).Ensure(r.t.Context(), svc, nodesOf(bs...))
	if err != nil {
		r.t.Fatal(err)
	}
	return addrs[0].String()
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
	return haproxy.NewClient(filepath.Join(r.stateDir, r.Of(svc).Name()))
}

// awaitUp waits until the server of node is UP or not.
func (r *rig) awaitUp(svc *v1.Service, node string, up bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	now, err := r.client(svc).Await(ctx, func(now haproxy.Running) bool {
		return slices.ContainsFunc(now.Servers, func(s haproxy.ServerState) bool { return s.Node() == node && s.Up == up })
	})
	if err != nil {
		r.t.Fatalf("server %s does not become up=%t: %v, servers %+v", node, up, err, now.Servers)
	}
}

// awaitLearned waits until the process can teach the one after it.
func (r *rig) awaitLearned(svc *v1.Service) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.client(svc).AwaitLearned(ctx); err != nil {
		r.t.Fatal(err)
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
	c, err := net.DialTimeout("tcp", net.JoinHostPort(ip, "18188"), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask makes one request on a new connection; from is the source address.
func ask(ctx context.Context, from, ip string, port int32) (body, src string, err error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(int(port))))
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	src = c.LocalAddr().String()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
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
