package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// netnsWorld is a wire with a client and one node:
//
//	wire (br0) ---- client 198.18.0.3, fd00:198:18::3
//	           ---- node-1 198.18.1.1, fd00:198:18::1:1
//	           ---- lb-…   198.18.255.0/24, fd00:198:18::ff00/120
type netnsWorld struct {
	t            *testing.T
	cluster      string
	wire, client *netns.NS
	node         *backend
	stateDir     string
	records      string
	svc          *v1.Service

	// Of the provider that runs.
	*Fleet
	netns *instance.Netns
	stop  func()
}

func newNetnsWorld(t *testing.T) *netnsWorld {
	need.Program(t, "haproxy")
	w := &netnsWorld{t: t, wire: netns.ForTest(t, "wire"), client: netns.ForTest(t, "client"), stateDir: stateDir(t), records: t.TempDir()}
	w.cluster = strings.TrimSuffix(strings.TrimPrefix(w.wire.Name, netns.Prefix), "-wire")
	w.check(w.wire.Do(func() error {
		br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		return errors.Join(netlink.LinkAdd(br), netlink.LinkSetUp(br))
	}))
	node, err := netns.New(w.cluster + "-node-1")
	w.check(err)
	t.Cleanup(func() { node.Close() })
	w.plug("client", w.client, "198.18.0.3/16", "fd00:198:18::3/64")
	w.plug("node-1", node, "198.18.1.1/16", "fd00:198:18::1:1/64")
	w.node = newBackendIn(t, node.Do, "node-1", "198.18.1.1", true, true)
	v6 := newBackendIn(t, node.Do, "node-1 by IPv6", "fd00:198:18::1:1", true, true)
	w.node.node.Status.Addresses = append(w.node.node.Status.Addresses, v6.node.Status.Addresses...)
	w.svc = testService(func(s *v1.Service) {
		s.Spec.Ports[0].Port = 80
		s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	})
	w.start()
	t.Cleanup(func() {
		err := w.Sweep(context.Background(), nil)
		w.kill()
		if err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *netnsWorld) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *netnsWorld) plug(port string, ns *netns.NS, addrs ...string) {
	w.t.Helper()
	var prefixes []netip.Prefix
	for _, a := range addrs {
		prefixes = append(prefixes, netip.MustParsePrefix(a))
	}
	w.check(netns.Veth(netns.End{NS: w.wire, Name: port}, netns.End{NS: ns, Name: "eth0", Addrs: prefixes}))
	w.check(w.wire.Do(func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMaster(link, br)
	}))
}

func netnsOptions(w *netnsWorld) instance.NetnsOptions {
	return instance.NetnsOptions{
		ProcessOptions: instance.ProcessOptions{
			StateDir: w.stateDir, Program: "haproxy", Log: slog.New(slog.NewTextHandler(&testLog{t: w.t}, nil)),
			Ranges: []netip.Prefix{netip.MustParsePrefix("198.18.255.0/24"), netip.MustParsePrefix("fd00:198:18::ff00/120")},
		},
		Cluster: w.cluster, Wire: w.wire.Name, Bridge: "br0",
		Nets: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("fd00:198:18::/64")},
	}
}

// start is plumb-lb starting, but for Sweep.
func (w *netnsWorld) start() {
	w.t.Helper()
	o := netnsOptions(w)
	n, err := instance.NewNetns(o)
	w.check(err)
	w.check(n.Adopt())
	rec, err := records.New(w.records, o.Log)
	w.check(err)
	w.netns = n
	w.Fleet = New(Config{
		Cluster: w.cluster, Profile: quick(), StateDir: w.stateDir, Instances: n, Recorder: rec, Log: o.Log,
		Ranges:      map[lbplan.Family]netip.Prefix{lbplan.V4: o.Ranges[0], lbplan.V6: o.Ranges[1]},
		ClearStatus: func(context.Context, *v1.Service) error { return nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Follow(ctx, n.Watch) })
	w.stop = func() {
		cancel()
		wg.Wait()
		if err := errors.Join(n.Close(), rec.Close()); err != nil {
			w.t.Error(err)
		}
	}
}

// kill is plumb-lb ending.
func (w *netnsWorld) kill() { w.stop() }

func (w *netnsWorld) name() string { return w.Of(w.svc).Name() }

func (w *netnsWorld) lbPath() string {
	return filepath.Join(netns.Dir, netns.Prefix+w.cluster+"-lb-"+strings.TrimPrefix(w.name(), instance.NamePrefix))
}

func (w *netnsWorld) ensure() []string {
	w.t.Helper()
	addrs, err := w.Of(w.svc).Ensure(w.t.Context(), w.svc, nodesOf(w.node))
	w.check(err)
	return []string{addrs[0].String(), addrs[1].String()}
}

// answered waits until the client has an answer from each address.
func (w *netnsWorld) answered(ips []string) {
	w.t.Helper()
	for _, ip := range ips {
		await(w.t, func() (string, bool) {
			err := w.client.Do(func() error {
				body, _, err := ask(w.t.Context(), "", ip, 80)
				if err == nil && !strings.HasPrefix(body, "node-1") {
					err = fmt.Errorf("%q answered", body)
				}
				return err
			})
			return fmt.Sprint(err), err == nil
		})
	}
}

// master is the pid of HAProxy's master; 0 while there is none or it starts.
func (w *netnsWorld) master() int {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.stateDir, w.name(), haproxy.PidFile))
	if errors.Is(err, fs.ErrNotExist) || len(text) == 0 {
		return 0
	}
	w.check(err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	w.check(err)
	return pid
}

func (w *netnsWorld) awaitOther(master int) {
	w.t.Helper()
	await(w.t, func() (string, bool) {
		now := w.master()
		return "no other master", now != 0 && now != master
	})
}

func (w *netnsWorld) worker() int {
	w.t.Helper()
	now, err := haproxy.NewClient(filepath.Join(w.stateDir, w.name())).Running(w.t.Context())
	w.check(err)
	return now.PID
}

func (w *netnsWorld) list() []instance.Instance {
	w.t.Helper()
	list, err := w.netns.List(w.t.Context())
	w.check(err)
	return list
}

// state is what stands of load balancers: namespaces, ports of the bridge,
// directories.
func (w *netnsWorld) state() []string {
	w.t.Helper()
	spaces, err := filepath.Glob(filepath.Join(netns.Dir, netns.Prefix+w.cluster+"-lb-*"))
	w.check(err)
	out := append(spaces, dirNames(w.t, w.stateDir)...)
	w.check(w.wire.Do(func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			if strings.HasPrefix(l.Attrs().Name, "lb-") {
				out = append(out, "link "+l.Attrs().Name)
			}
		}
		return err
	}))
	return out
}

func killNow(t *testing.T, pid int) {
	t.Helper()
	if pid <= 1 { // 0 is this process's own group
		t.Fatalf("no process to kill: %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// One load balancer's life: both families on port 80 without a capability, back
// after it was killed, found and looked after by another plumb-lb, gone at once.
func TestNetns(t *testing.T) {
	t.Parallel()
	w := newNetnsWorld(t)
	ips := w.ensure()
	w.answered(ips)
	checkResident(t, w, ips)

	for _, victim := range []struct {
		name string
		pid  func() int
	}{{"worker", w.worker}, {"master", w.master}} {
		t.Run("kill -9 of the "+victim.name, func(t *testing.T) {
			was := w.master()
			killNow(t, victim.pid())
			w.awaitOther(was)
			w.answered(ips)
			checkEventFile(t, w.records, "exit", "DOWN node-1", "start", "UP node-1")
		})
	}
	t.Run("another plumb-lb", func(t *testing.T) {
		master, worker := w.master(), w.worker()
		w.kill()
		// With real-time priority, looking for a plumb-lb would be all that the host does.
		checkScheduled(t, w, unix.SCHED_NORMAL)
		w.start()
		checkScheduled(t, w, unix.SCHED_NORMAL) // for as long as that waits for its API
		w.check(w.Sweep(t.Context(), []*v1.Service{w.svc}))
		checkScheduled(t, w, firstPolicy(t))
		if again := w.ensure(); !slices.Equal(again, ips) || w.worker() != worker || w.master() != master {
			t.Errorf("addresses %v, pids %d %d; were %v, %d %d", again, w.master(), w.worker(), ips, master, worker)
		}
		killNow(t, master)
		w.awaitOther(master)
		w.answered(ips)
		checkEventFile(t, w.records, "exit", "start", "UP node-1")
	})
	t.Run("it ends while no plumb-lb runs", func(t *testing.T) {
		w.kill()
		pid := w.master()
		killNow(t, pid)
		await(t, func() (string, bool) { return "not dead", zombie(pid) })
		w.start()
		if list := w.list(); len(list) != 1 || !list[0].Stopped || list[0].Running || len(list[0].Addrs) != 2 || list[0].Service != "shop/web" {
			t.Errorf("found %+v", list)
		}
		w.check(w.Sweep(t.Context(), []*v1.Service{w.svc}))
		if again := w.ensure(); !slices.Equal(again, ips) {
			t.Errorf("addresses %v, were %v", again, ips)
		}
		w.answered(ips)
	})
	for _, given := range []bool{false, true} {
		t.Run(fmt.Sprintf("its namespace's name is taken away, given to another %t", given), func(t *testing.T) {
			was := w.master()
			w.check(netns.Delete(filepath.Base(w.lbPath())))
			if given {
				_, err := netns.New(strings.TrimPrefix(filepath.Base(w.lbPath()), netns.Prefix))
				w.check(err)
			}
			w.ensure()
			w.answered(ips)
			if w.master() == was || !zombie(was) {
				t.Errorf("master %d, was %d and should be gone", w.master(), was)
			}
		})
	}
	t.Run("it ends and its link is gone", func(t *testing.T) {
		was := w.master()
		w.check(netns.At(w.lbPath()).Do(func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.LinkDel(link)
		}))
		killNow(t, was)
		w.awaitOther(was)
		w.answered(ips)
	})
	t.Run("version", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(w.records, records.VersionFile))
		if err := errors.Join(err, haproxy.CheckVersion(strings.TrimSpace(string(text)))); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
	t.Run("families", func(t *testing.T) { checkFamilies(t, w, ips) })
	t.Run("deleted", func(t *testing.T) { checkGone(t, w, ips[0]) })
}

// firstPolicy is how the kernel schedules who asks to come before all that is not of real time: by
// that where it lets this process.
func firstPolicy(t *testing.T) uint32 {
	t.Helper()
	policy := make(chan uint32)
	go func() {
		runtime.LockOSThread() // and ends with it
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
		if unix.SchedSetAttr(0, &attr, 0) != nil {
			attr.Policy = unix.SCHED_NORMAL
		}
		policy <- attr.Policy
	}()
	return <-policy
}

func checkScheduled(t *testing.T, w *netnsWorld, policy uint32) {
	t.Helper()
	for _, pid := range []int{w.master(), w.worker()} {
		if attr, err := unix.SchedGetAttr(pid, 0); err != nil || attr.Policy != policy {
			t.Errorf("process %d is scheduled by policy %+v, want %d (%v)", pid, attr, policy, err)
		}
	}
}

func checkResident(t *testing.T, w *netnsWorld, ips []string) {
	t.Helper()
	checkScheduled(t, w, firstPolicy(t))
	for _, pid := range []int{w.master(), w.worker()} {
		proc := fmt.Sprintf("/proc/%d/", pid)
		status, err := os.ReadFile(proc + "status")
		w.check(err)
		for _, want := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapAmb:\t0000000000000000",
			"NoNewPrivs:\t1", "Uid:\t65532\t65532\t65532\t65532", "Gid:\t65532\t65532\t65532\t65532", "Groups:\t \n"} {
			if !strings.Contains(string(status), want) {
				t.Errorf("process %d has not %q:\n%s", pid, want, status)
			}
		}
		environ, err := os.ReadFile(proc + "environ")
		if err != nil || strings.Contains(string(environ), "PATH=") || strings.Contains(string(environ), "HOME=") {
			t.Errorf("process %d has the environment %q (%v)", pid, environ, err)
		}
		in, err := os.Stat(proc + "ns/net")
		w.check(err)
		if want, err := os.Stat(w.lbPath()); err != nil || !os.SameFile(in, want) {
			t.Errorf("process %d is not in %s (%v)", pid, w.lbPath(), err)
		}
	}
	w.check(netns.At(w.lbPath()).Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		var got []string
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		for _, a := range addrs {
			if a.IP.IsGlobalUnicast() {
				got = append(got, a.IPNet.String())
			}
		}
		if want := []string{ips[0] + "/16", ips[1] + "/64"}; !slices.Equal(got, want) {
			t.Errorf("addresses %v, want %v", got, want)
		}
		routes, err2 := netlink.RouteList(nil, netlink.FAMILY_ALL)
		for _, r := range routes {
			if r.Gw != nil || r.Dst == nil {
				t.Errorf("route %v", r)
			}
		}
		return errors.Join(err, err2)
	}))
}

// checkFamilies: an address is published as long as nodes are reached by its family; the
// load balancer runs on meanwhile.
func checkFamilies(t *testing.T, w *netnsWorld, ips []string) {
	worker, all := w.worker(), w.node.node.Status.Addresses
	for _, c := range []struct {
		addrs []v1.NodeAddress
		want  []string
	}{{all[:1], ips[:1]}, {all[1:], ips[1:]}, {all, ips}} {
		node := w.node.node.DeepCopy()
		node.Status.Addresses = c.addrs
		if err := w.Of(w.svc).Update(t.Context(), w.svc, []*v1.Node{node}); err == nil || !strings.Contains(err.Error(), "not published yet") {
			t.Errorf("an update to %v: %v, want the controller to publish", c.addrs, err)
		}
		addrs, err := w.Of(w.svc).Ensure(t.Context(), w.svc, []*v1.Node{node})
		w.check(err)
		var got []string
		for _, a := range addrs {
			got = append(got, a.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("with %v %v are published, want %v", c.addrs, got, c.want)
		}
		if err := w.Of(w.svc).Update(t.Context(), w.svc, []*v1.Node{node}); err != nil {
			t.Errorf("an update without a change: %v", err)
		}
	}
	if now := w.worker(); now != worker {
		t.Errorf("HAProxy is %d, was %d", now, worker)
	}
}

// checkGone deletes the Service and wants its connections to end with it.
func checkGone(t *testing.T, w *netnsWorld, ip string) {
	t.Helper()
	var c net.Conn
	w.check(w.client.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", net.JoinHostPort(ip, "80"), 10*time.Second)
		return err
	}))
	defer c.Close()
	master, worker := w.master(), w.worker()
	w.check(w.Of(w.svc).Remove(t.Context()))
	for _, pid := range []int{master, worker} {
		if !zombie(pid) {
			t.Errorf("process %d runs on", pid)
		}
	}
	if left := w.state(); len(left) != 0 || len(w.list()) != 0 {
		t.Errorf("left %v, listed %+v", left, w.list())
	}
	soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := w.client.Do(func() error { _, _, err := ask(soon, "", ip, 80); return err }); err == nil {
		t.Error("it answers")
	}
}

// zombie: it ended, though whoever took it over may not have asked yet.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// noted is what a start writes before it makes anything.
func noted(w *netnsWorld) error {
	d := w.Of(w.svc).dir
	return errors.Join(d.make(), os.WriteFile(filepath.Join(d.path, "instance.json"), []byte(`{"service":"shop/web","addresses":["198.18.255.9"]}`), 0o600))
}

// One with another state directory takes no load balancer for its own, though they are
// of one name: it gives their addresses to nobody, and sweeps what no Service wants.
func TestNetnsOfAnotherStateDirectory(t *testing.T) {
	t.Parallel()
	w := newNetnsWorld(t)
	ips := w.ensure()
	o := netnsOptions(w)
	o.StateDir = stateDir(t)
	n, err := instance.NewNetns(o)
	w.check(err)
	w.check(n.Adopt())
	defer n.Close()
	rec, err := records.New(t.TempDir(), o.Log)
	w.check(err)
	defer rec.Close()
	other := New(Config{Cluster: w.cluster, Profile: quick(), StateDir: o.StateDir, Instances: n, Recorder: rec, Log: o.Log})
	w.check(other.Sweep(t.Context(), nil))
	w.answered(ips)
	taken, err := n.Taken(t.Context())
	w.check(err)
	for _, ip := range ips {
		if taken[netip.MustParseAddr(ip)] == "" {
			t.Errorf("%s is free for the other", ip)
		}
	}
}

// What a plumb-lb that was killed half-way left is no obstacle for the same load
// balancer, and goes if no Service wants it.
func TestNetnsLeftovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(*netnsWorld) error
	}{
		{"a record, and a name without a namespace", func(w *netnsWorld) error {
			return errors.Join(noted(w), os.WriteFile(w.lbPath(), nil, 0o444))
		}},
		{"a record, and a namespace without a link", func(w *netnsWorld) error {
			_, err := netns.New(strings.TrimPrefix(filepath.Base(w.lbPath()), netns.Prefix))
			return errors.Join(noted(w), err)
		}},
		{"a record, and a namespace with another address", func(w *netnsWorld) error {
			ns, err := netns.New(strings.TrimPrefix(filepath.Base(w.lbPath()), netns.Prefix))
			if err := errors.Join(noted(w), err); err != nil {
				return err
			}
			return netns.Veth(netns.End{NS: w.wire, Name: "lb-" + strings.TrimPrefix(w.name(), instance.NamePrefix)},
				netns.End{NS: ns, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("198.18.255.77/16")}})
		}},
		{"a link of the same name", func(w *netnsWorld) error {
			return w.wire.Do(func() error {
				return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lb-" + strings.TrimPrefix(w.name(), instance.NamePrefix)}, PeerName: "other"})
			})
		}},
		{"a record without a process", noted},
		{"a record cut short", func(w *netnsWorld) error {
			d := w.Of(w.svc).dir
			return errors.Join(d.make(), os.WriteFile(filepath.Join(d.path, "instance.json"), []byte(`{"ser`), 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newNetnsWorld(t)
			w.kill()
			w.check(c.make(w))
			w.start()
			w.check(w.Sweep(t.Context(), []*v1.Service{w.svc}))
			w.answered(w.ensure())
			checkGone(t, w, w.ensure()[0])
			if c.name == "a link of the same name" {
				return // nobody's: nothing leads to it
			}
			w.kill()
			w.check(c.make(w))
			w.start()
			w.check(w.Sweep(t.Context(), nil))
			if left := w.state(); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// A process that only looks like one is nobody's: it is neither found nor ended.
func TestForeignProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newNetnsWorld(t)
	w.ensure()
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.master()))
	w.check(err)
	args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	r, out, err := os.Pipe()
	w.check(err)
	defer r.Close()
	p, err := os.StartProcess("/bin/sh", append([]string{"haproxy", "-c", "read line"}, args[1:]...), &os.ProcAttr{Files: []*os.File{r, os.Stdout, os.Stderr}})
	w.check(err)
	w.check(w.Of(w.svc).Remove(t.Context()))
	if err := p.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process: %v", err)
	}
	_, err = io.WriteString(out, "end\n")
	w.check(errors.Join(err, out.Close()))
	if st, err := p.Wait(); err != nil || !st.Success() {
		t.Errorf("the other process ended: %v, %v", st, err)
	}
}

func TestNetnsRefusesWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newNetnsWorld(t)
	for _, c := range []struct {
		name   string
		mutate func(*instance.NetnsOptions)
		want   string
	}{
		{"wire", func(o *instance.NetnsOptions) { o.Wire = "plumb-none" }, "network namespace plumb-none is not there"},
		{"bridge", func(o *instance.NetnsOptions) { o.Bridge = "br7" }, "has no link br7"},
		{"a link that is no bridge", func(o *instance.NetnsOptions) { o.Bridge = "client" }, "is no bridge but a veth"},
		{"range", func(o *instance.NetnsOptions) { o.Ranges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }, "192.0.2.0/24 is not within the networks of the wire"},
		{"program", func(o *instance.NetnsOptions) { o.Program = "haproxy-none" }, "program haproxy-none is not on this host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := netnsOptions(w)
			c.mutate(&o)
			if _, err := instance.NewNetns(o); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
		})
	}
	t.Run("a state directory that HAProxy cannot reach", func(t *testing.T) {
		w.check(os.Chmod(w.stateDir, 0o700))
		n, err := instance.NewNetns(netnsOptions(w))
		w.check(err)
		if err := n.Adopt(); err == nil || !strings.Contains(err.Error(), w.stateDir+" is not searchable") {
			t.Errorf("error %v", err)
		}
	})
}
