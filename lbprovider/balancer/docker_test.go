package balancer

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/records"
)

const (
	testNetwork = "plumbline-lbtest"
	testImage   = "plumbline-lbtest/haproxy:test"
	testCluster = "plumbline-lbtest"
)

// dockerWorld is a network of its own and an image made from this host's
// HAProxy. The only "node" is the host at the network's gateway.
func dockerWorld(t *testing.T) *client.Client {
	t.Helper()
	need.Root(t)
	need.Docker(t)
	need.Program(t, "haproxy")
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	ctx := context.Background() // cleanups outlive t.Context
	clean := func() {
		d, err := instance.New(ctx, instance.Options{Cluster: testCluster, Scope: "mine", Network: testNetwork, Image: testImage})
		if err == nil {
			left, err := d.List(ctx)
			for _, i := range left {
				err = d.Stop(ctx, i.Name)
			}
			if err != nil {
				t.Error(err)
			}
			d.Close()
		}
		if err := cli.NetworkRemove(ctx, testNetwork); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
		if _, err := cli.ImageRemove(ctx, testImage, image.RemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	}
	clean() // of a run that was killed
	t.Cleanup(clean)
	importImage(t, cli)
	v6 := true
	if _, err := cli.NetworkCreate(ctx, testNetwork, network.CreateOptions{
		Driver: "bridge", EnableIPv6: &v6, Labels: map[string]string{"io.plumbline": "lbtest"},
		IPAM: &network.IPAM{Config: []network.IPAMConfig{
			{Subnet: "172.29.250.0/24", Gateway: "172.29.250.1", IPRange: "172.29.250.0/26"},
			{Subnet: "fd00:29:250::/64", Gateway: "fd00:29:250::1"},
		}},
	}); err != nil {
		t.Fatal(err)
	}
	return cli
}

// importImage packs haproxy and what ldd says it needs.
func importImage(t *testing.T, cli *client.Client) {
	t.Helper()
	bin, err := exec.LookPath("haproxy")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ldd", bin).Output()
	if err != nil {
		t.Fatalf("ldd %s: %v", bin, err)
	}
	files := []string{bin}
	for f := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(f, "/") {
			files = append(files, f)
		}
	}
	slices.Sort(files)
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, dir := range []string{"run/lb", "tmp", "etc"} {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range slices.Compact(files) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := tw.WriteHeader(&tar.Header{Name: strings.TrimPrefix(f, "/"), Mode: 0o755, Size: int64(len(b))}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := cli.ImageImport(t.Context(), image.ImportSource{Source: &buf, SourceName: "-"}, testImage,
		image.ImportOptions{Changes: []string{"ENV PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
}

func dockerProvider(t *testing.T, stateDir, dir string) (*Fleet, *instance.Docker) {
	t.Helper()
	ranges := map[lbplan.Family]netip.Prefix{lbplan.V4: netip.MustParsePrefix("172.29.250.128/26"), lbplan.V6: netip.MustParsePrefix("fd00:29:250:0:1::/80")}
	d, err := instance.New(t.Context(), instance.Options{
		Cluster: testCluster, Run: "run-aaaaa", Scope: "mine", Network: testNetwork, Image: testImage, Ranges: []netip.Prefix{ranges[lbplan.V4], ranges[lbplan.V6]},
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&testLog{t: t}, nil))
	rec, err := records.New(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	p := New(Config{
		Cluster: testCluster, Ranges: ranges, Profile: quick(), StateDir: stateDir, HAProxyDir: instance.RunDir,
		Instances: d, Recorder: rec, Log: log,
		ClearStatus: func(context.Context, *v1.Service) error { return nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	followed := make(chan struct{})
	go func() {
		p.Follow(ctx, d.Watch)
		close(followed)
	}()
	t.Cleanup(func() {
		cancel()
		<-followed
		rec.Close()
		d.Close()
	})
	return p, d
}

// The container: both families on port 80 without a capability, fixed
// addresses, back by itself after a crash and by us after docker kill, found
// by another provider, gone in the end.
func TestContainer(t *testing.T) {
	cli := dockerWorld(t)
	stateDir, err := os.MkdirTemp("", "plumb-lb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(stateDir) })
	dir := t.TempDir()
	p, d := dockerProvider(t, stateDir, dir)

	host := newBackend(t, "host", "172.29.250.1", true, true)
	host6 := newBackend(t, "host6", "fd00:29:250::1", true, true)
	host.node.Status.Addresses = append(host.node.Status.Addresses, host6.node.Status.Addresses...)
	svc := testService(func(s *v1.Service) {
		s.Spec.Ports[0].Port = 80
		s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	})
	addrs, err := p.Of(svc).Ensure(t.Context(), svc, nodesOf(host))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"host", "host6"} {
		awaitAnswer(t, addrs[i].String()) // the bridge's IPv6 address takes a moment (duplicate detection)
		if body, _, err := ask(t.Context(), "", addrs[i].String(), 80); err != nil || body != want {
			t.Errorf("%s: %q, %v; want %q", addrs[i].String(), body, err, want)
		}
	}
	name := p.Of(svc).Name()
	checkContainer(t, cli, name)
	checkScope(t)

	t.Run("crash", func(t *testing.T) {
		c, err := cli.ContainerInspect(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(c.State.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitAnswer(t, addrs[0].String())
		checkEventFile(t, dir, "exit", "start", "UP host")
	})
	t.Run("docker kill", func(t *testing.T) {
		if err := cli.ContainerKill(t.Context(), name, "KILL"); err != nil {
			t.Fatal(err)
		}
		awaitAnswer(t, addrs[0].String())
		awaitAnswer(t, addrs[1].String())
	})
	t.Run("docker rm -f", func(t *testing.T) {
		if err := cli.ContainerRemove(t.Context(), name, container.RemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		awaitAnswer(t, addrs[0].String())
		awaitAnswer(t, addrs[1].String())
	})
	t.Run("taken", func(t *testing.T) {
		taken, err := d.Taken(t.Context())
		if err != nil || taken[netip.MustParseAddr(addrs[0].String())] != name || taken[netip.MustParseAddr("172.29.250.1")] == "" {
			t.Errorf("taken %v, %v", taken, err)
		}
		other := testService(func(s *v1.Service) { s.UID, s.Name, s.Spec.LoadBalancerIP = "uid-2", "other", addrs[0].String() })
		if _, err := p.Of(other).Ensure(t.Context(), other, nodesOf(host)); !isRefusal(err) || !strings.Contains(err.Error(), "is taken by "+name) {
			t.Errorf("error %v, want a refusal that names %s", err, name)
		}
	})
	t.Run("another provider", func(t *testing.T) {
		before, err := haproxy.NewClient(filepath.Join(stateDir, name)).Running(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p2, _ := dockerProvider(t, stateDir, t.TempDir())
		if err := p2.Sweep(t.Context(), []*v1.Service{svc}); err != nil {
			t.Fatal(err)
		}
		again, err := p2.Of(svc).Ensure(t.Context(), svc, nodesOf(host))
		if err != nil || !slices.Equal(again, addrs) {
			t.Errorf("at %v, %v; was at %v", again, err, addrs)
		}
		now, err := haproxy.NewClient(filepath.Join(stateDir, name)).Running(t.Context())
		if err != nil || now.PID != before.PID {
			t.Errorf("pid %d, was %d: it was reloaded (%v)", now.PID, before.PID, err)
		}
	})
	t.Run("nobody wants it", func(t *testing.T) {
		if err := p.Sweep(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if left, err := d.List(t.Context()); err != nil || len(left) != 0 {
			t.Errorf("left %+v, %v", left, err)
		}
	})
}

// checkScope: who serves something else does not see what this one has made, and so sweeps
// nothing of it.
func checkScope(t *testing.T) {
	t.Helper()
	for scope, want := range map[string]int{"mine": 1, "theirs": 0, "": 0} {
		d, err := instance.New(t.Context(), instance.Options{Cluster: testCluster, Scope: scope, Network: testNetwork, Image: testImage})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.List(t.Context()); err != nil || len(got) != want {
			t.Errorf("scope %q: %v, %v; want %d", scope, got, err, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func checkContainer(t *testing.T, cli *client.Client, name string) {
	t.Helper()
	c, err := cli.ContainerInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	h := c.HostConfig
	if c.Config.User == "" || strings.HasPrefix(c.Config.User, "0") || h.Privileged || !h.ReadonlyRootfs || !slices.Contains([]string(h.CapDrop), "ALL") ||
		!slices.Contains(h.SecurityOpt, "no-new-privileges") || h.Memory == 0 || h.PidsLimit == nil {
		t.Errorf("user %q, host config %+v", c.Config.User, h)
	}
	for label, want := range map[string]string{"io.plumbline.run": "run-aaaaa", "io.plumbline.role": "lb", "io.plumbline.cluster": testCluster, "io.plumbline.service": "shop/web"} {
		if got := c.Config.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.State.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the process has not %q:\n%s", want, status)
		}
	}
}

func awaitAnswer(t *testing.T, ip string) {
	t.Helper()
	await(t, func() (string, bool) {
		_, _, err := ask(t.Context(), "", ip, 80)
		return fmt.Sprint(err), err == nil
	})
}

func checkEventFile(t *testing.T, dir string, want ...string) {
	t.Helper()
	checkEvents(t, &rig{records: dir}, want...)
}

func TestDockerRefusesWhatIsMissing(t *testing.T) {
	dockerWorld(t)
	good := instance.Options{Cluster: testCluster, Network: testNetwork, Image: testImage, Ranges: []netip.Prefix{netip.MustParsePrefix("172.29.250.128/26")}}
	for _, c := range []struct {
		name   string
		mutate func(*instance.Options)
		want   string
	}{
		{"image", func(o *instance.Options) { o.Image = "plumbline-lbtest/none:1" }, "image plumbline-lbtest/none:1 is not in Docker"},
		{"network", func(o *instance.Options) { o.Network = "plumbline-lbtest-none" }, "docker network plumbline-lbtest-none is not there"},
		{"range", func(o *instance.Options) { o.Ranges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }, "192.0.2.0/24 is not within a subnet"},
		{"range wider than the network", func(o *instance.Options) { o.Ranges = []netip.Prefix{netip.MustParsePrefix("172.29.0.0/16")} }, "is not within a subnet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := good
			c.mutate(&o)
			d, err := instance.New(t.Context(), o)
			if err == nil {
				d.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, c.want)
			}
		})
	}
	t.Run("overlap is noted", func(t *testing.T) {
		o := good
		o.Ranges = []netip.Prefix{netip.MustParsePrefix("172.29.250.32/27")}
		d, err := instance.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if !strings.Contains(d.Note, "overlaps") {
			t.Errorf("note %q", d.Note)
		}
	})
}
