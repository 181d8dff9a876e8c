package proxy

import (
	"bytes"
	"cmp"
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
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/cgroup"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/tools/internal/call"
)

// asProgram makes the test binary the program itself, with the capabilities in
// onlyCaps (numbers, separated by commas) and no others, as a container has them.
const (
	asProgram = "PLUMB_PROXY_IS_MAIN"
	onlyCaps  = "PLUMB_PROXY_CAPABILITIES"
)

// changeMounts is what a container of the program finds otherwise than this test.
const (
	changeMounts    = "PLUMB_PROXY_MOUNTS"
	readOnlySysctls = "read-only sysctls"
	withoutBPFFS    = "no bpffs"
	withoutBPF      = "no bpf(2)"
)

// mounted starts this program anew with other mounts.
func mounted(change string) error {
	runtime.LockOSThread() // execve keeps the calling thread's
	err := errors.Join(os.Unsetenv(changeMounts), unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	switch change {
	case withoutBPFFS:
		for { // the host's may be below the tests' own
			failed := unix.Unmount(ebpf.Mount, unix.MNT_DETACH)
			if errors.Is(failed, unix.EINVAL) {
				break
			}
			if err = errors.Join(err, failed); err != nil {
				return err
			}
		}
	case withoutBPF:
		err = errors.Join(err, denyBPF())
	default:
		err = errors.Join(err, unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""), unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	if err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}

// denyBPF refuses bpf(2) to this thread and what it starts, as container runtimes' seccomp profiles do.
func denyBPF() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // nr of struct seccomp_data
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_BPF, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("install a seccomp filter: %w", errno)
	}
	return nil
}

// run is the program as it is shipped.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return Main(ctx, args, stdout, stderr, nil)
}

func TestMain(m *testing.M) {
	if err := need.OwnBPFFS(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(call.Failed)
	}
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	if change := os.Getenv(changeMounts); change != "" {
		fmt.Fprintln(os.Stderr, mounted(change))
		os.Exit(call.Failed)
	}
	if caps, ok := os.LookupEnv(onlyCaps); ok {
		fmt.Fprintln(os.Stderr, again(strings.Split(caps, ",")))
		os.Exit(call.Failed)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// again starts this program anew without the other capabilities.
func again(keep []string) error {
	var capabilities []int
	for _, text := range keep {
		if c, err := strconv.Atoi(text); err == nil {
			capabilities = append(capabilities, c)
		}
	}
	return errors.Join(os.Unsetenv(onlyCaps), need.ExecWith(capabilities...))
}

const (
	patience = 60 * time.Second
	nodeIP   = "192.0.2.1"
	healthAt = "127.0.0.1:10256"
)

// world is a node of its own: a namespace with an address, and an API server in it.
type world struct {
	ns         *netns.NS
	api        *api.Server
	kubeconfig string
	cgroup     string   // that of the node's programs; empty: none is looked for
	program    string   // another build of the agent; empty: this one
	env        []string // more of it, for the agent
}

func newWorld(t *testing.T, objects ...api.Object) *world {
	t.Helper()
	ns := netns.ForTest(t, "node")
	// Both ends of the link are here: all it is for is the address.
	err := netns.Veth(
		netns.End{NS: ns, Name: "x", Addrs: []netip.Prefix{netip.MustParsePrefix(nodeIP + "/24")}},
		netns.End{NS: ns, Name: "y"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldIn(t, ns, objects...)
	group, err := cgroup.New(ns.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Remove(patience); err != nil {
			t.Error(err)
		}
	})
	w.cgroup = group.Path()
	return w
}

// newWorldIn is one whose node has its addresses already.
func newWorldIn(t *testing.T, ns *netns.NS, objects ...api.Object) *world {
	t.Helper()
	w := &world{ns: ns, api: api.New(api.Config{Logger: slog.New(slog.DiscardHandler)})}
	var l net.Listener
	err := w.ns.Do(func() error {
		var err error
		l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.api.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(w.kubeconfig, api.Kubeconfig(api.URL(l)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.apply(t, objects...)
	return w
}

func (w *world) apply(t *testing.T, objects ...api.Object) {
	t.Helper()
	if err := w.api.Apply(objects...); err != nil {
		t.Fatal(err)
	}
}

// command is plumb-proxy on this node.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, cmp.Or(w.program, os.Args[0]), args...)
	c.Env = append(append(os.Environ(), asProgram+"=1"), w.env...)
	return c
}

// only takes all other capabilities away from the processes to come.
func (w *world) only(caps []node.Capability) {
	var numbers []string
	for _, c := range caps {
		numbers = append(numbers, fmt.Sprint(int(c)))
	}
	w.env = []string{onlyCaps + "=" + strings.Join(numbers, ",")}
}

// call runs a command to its end, which must be near.
func (w *world) call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := w.command(ctx, args...)
	var out, err strings.Builder
	c.Stdout, c.Stderr = &out, &err
	if e := w.ns.Do(c.Run); e != nil && c.ProcessState == nil {
		t.Fatal(e)
	}
	return out.String(), err.String(), c.ProcessState.ExitCode()
}

// output is what a command prints that must succeed.
func (w *world) output(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, code := w.call(t, args...)
	if code != 0 {
		t.Fatalf("plumb-proxy %s: exit %d: %s", strings.Join(args, " "), code, stderr)
	}
	return out
}

// nft is what the program prints on this node.
func (w *world) nft(t *testing.T, args ...string) string {
	t.Helper()
	need.Program(t, "nft")
	var out []byte
	err := w.ns.Do(func() (err error) {
		out, err = exec.CommandContext(t.Context(), "nft", args...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("nft %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// process is a running agent.
type process struct {
	cmd *exec.Cmd
	log *logBuffer
}

// logBuffer is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// start runs the agent, and waits until the rules are in.
func (w *world) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := w.launch(t, args...)
	w.await(t, "healthy", func() bool { return w.get("http://"+healthAt+"/healthz").code == http.StatusOK })
	return p
}

// launch runs the agent.
func (w *world) launch(t *testing.T, args ...string) *process {
	t.Helper()
	args = append([]string{"--node-name=here", "--kubeconfig=" + w.kubeconfig, "--healthz-bind-address=" + healthAt}, args...)
	if slices.Contains(args, "--backend=userspace") {
		args = append(args, "--userspace-state-dir="+filepath.Dir(w.kubeconfig))
	}
	if slices.Contains(args, "--backend=ebpf") && w.cgroup != "" && !slices.Contains(args, "--sockets=off") {
		args = append(args, "--cgroup-root="+w.cgroup)
	}
	p := &process{cmd: w.command(context.WithoutCancel(t.Context()), args...), log: &logBuffer{}}
	p.cmd.Stderr, p.cmd.Stdout = p.log, p.log
	if err := w.ns.Do(p.cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.end(t, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("the agent said:\n%s", p.log)
		}
	})
	return p
}

// end signals the process and waits for it.
func (p *process) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	err := p.cmd.Wait()
	if sig != syscall.SIGKILL && err != nil {
		t.Errorf("the agent ended with %v", err)
	}
}

type answer struct {
	code int
	body string
}

// get asks from inside the namespace; the code is 0 if nobody answers.
func (w *world) get(url string) answer {
	dial := func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		err = w.ns.Do(func() error {
			c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return c, err
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	r, err := client.Get(url)
	if err != nil {
		return answer{}
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return answer{}
	}
	return answer{r.StatusCode, string(body)}
}

func (w *world) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for: %s", what)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func theNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}},
	}}
}

func service(name, ip string, with func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	if with != nil {
		with(s)
	}
	return s
}

// slice has an endpoint for each address, on this node if it ends with a mark !,
// and terminating if with a ~.
func slice(service string, addrs ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)}},
	}
	for _, a := range addrs {
		e := discoveryv1.Endpoint{Addresses: []string{strings.Trim(a, "!~")}, NodeName: ptr("there")}
		if strings.Contains(a, "!") {
			e.NodeName = ptr("here")
		}
		if strings.Contains(a, "~") {
			e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true), Terminating: ptr(true)}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func loadBalancer(s *corev1.Service) {
	s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, "Local", 31000
	s.Spec.Ports[0].NodePort = 30080
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}}
}

func healthCheck(s string) string { return fmt.Sprintf("http://%s:31000/%s", nodeIP, s) }

// sysctl reads one as a process in the namespace sees it.
func (w *world) sysctl(t *testing.T, path string) string {
	t.Helper()
	var text []byte
	err := w.ns.Do(func() error {
		var err error
		text, err = os.ReadFile(filepath.Join("/proc/sys", path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// freePort is an address of the loopback interface that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), need.Port(t)).String()
}
