package selftest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/suites/stage"
)

// lookalikes are things of somebody's that look like ours: by a name that begins as ours do,
// by our label with another value, by lying where ours lie. Each has what reads all of it.
type lookalikes map[string]func(context.Context) (string, error)

// read is all of them, as they are.
func (l lookalikes) read(ctx context.Context) map[string]string {
	out := map[string]string{}
	for name, read := range l {
		text, err := read(ctx)
		if err != nil {
			text = "gone: " + err.Error()
		}
		out[name] = text
	}
	return out
}

// changed says which are not as they were.
func (l lookalikes) changed(ctx context.Context, before map[string]string) (out []string) {
	for name, now := range l.read(ctx) {
		if was := before[name]; now != was {
			out = append(out, fmt.Sprintf("%s\n was %s\n is  %s", name, was, now))
		}
	}
	return out
}

// makeLookalikes puts them on this host and into a cluster until the spec ends.
func makeLookalikes(ctx context.Context, its *somebodys) lookalikes {
	l := lookalikes{}
	l.onDisk()
	l.inKernel(ctx)
	l.inDocker(ctx, its)
	l.inCluster(ctx, its)
	return l
}

func (l lookalikes) onDisk() {
	dockerd := filepath.Join(stage.StateDir, "theirs.pid")
	for path, text := range map[string]string{
		filepath.Join(stage.StateDir, "theirs"):                             "theirs",
		filepath.Join(stage.StateDir, "lb", "theirs", "haproxy.cfg"):        "global\n",
		filepath.Join(stage.StateDir, "plumbline-theirs.kubeconfig"):        "current-context: theirs\n",
		filepath.Join(stage.StateDir, host.RunsDir, "theirs", "lock"):       "",
		filepath.Join(os.TempDir(), "plumbline-node-12345", "kubelet"):      "theirs",
		filepath.Join(os.TempDir(), "plumbline-existing-theirs", "kubelet"): "theirs",
		filepath.Join(os.TempDir(), "plumbline-apt.aB3xYz"):                 "theirs",
		dockerd: fmt.Sprintln(l.process()),
	} {
		gomega.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(gomega.Succeed())
		gomega.Expect(os.WriteFile(path, []byte(text), 0o640)).To(gomega.Succeed())
		ginkgo.DeferCleanup(func() {
			_ = os.Remove(path)
			for dir := filepath.Dir(path); dir != stage.StateDir && dir != os.TempDir(); dir = filepath.Dir(dir) {
				_ = os.Remove(dir) // unless there is something of a run's in it
			}
		})
		l["file "+path] = func(context.Context) (string, error) {
			st, err := os.Lstat(path)
			if err != nil {
				return "", err
			}
			text, err := os.ReadFile(path)
			return fmt.Sprintf("%s %s %s", st.Mode(), st.ModTime().Format(time.RFC3339Nano), text), err
		}
	}
}

// process is one whose program is called like ours, and that a pid file in our folder names.
func (l lookalikes) process() int {
	path := filepath.Join(ginkgo.GinkgoT().TempDir(), "plumb-theirs")
	sleep, err := exec.LookPath("sleep")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	text, err := os.ReadFile(sleep)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(os.WriteFile(path, text, 0o755)).To(gomega.Succeed())
	return l.start("process plumb-theirs", exec.Command(path, "86400"))
}

// start starts a process that must live on.
func (l lookalikes) start(name string, cmd *exec.Cmd) int {
	gomega.Expect(cmd.Start()).To(gomega.Succeed())
	ginkgo.DeferCleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	l[name] = func(context.Context) (string, error) {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
		return exe, err
	}
	return cmd.Process.Pid
}

func (l lookalikes) inKernel(ctx context.Context) {
	for _, name := range []string{"theirs", "existing-theirs-node-1"} {
		ns, err := netns.New(name)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(ns.Close)
		inside := exec.Command("sleep", "86400")
		gomega.Expect(ns.Do(func() error { l.start("process in "+ns.Name, inside); return nil })).To(gomega.Succeed())
		l["namespace "+ns.Name] = func(context.Context) (string, error) {
			var st unix.Stat_t
			err := unix.Stat(ns.Path(), &st)
			return fmt.Sprint(st.Dev, st.Ino), err
		}
	}
	for _, made := range []struct{ make, read, remove []string }{
		{[]string{"ip", "link", "add", "plumb-theirs", "type", "veth", "peer", "name", "theirs0"}, []string{"ip", "-json", "link", "show", "plumb-theirs"}, []string{"ip", "link", "del", "plumb-theirs"}},
		{[]string{"nft", "add", "table", "inet", "plumbline-theirs"}, []string{"nft", "--handle", "list", "table", "inet", "plumbline-theirs"}, []string{"nft", "delete", "table", "inet", "plumbline-theirs"}},
	} {
		gomega.Expect(exec.CommandContext(ctx, made.make[0], made.make[1:]...).Run()).To(gomega.Succeed())
		ginkgo.DeferCleanup(func() error { return exec.Command(made.remove[0], made.remove[1:]...).Run() })
		l[strings.Join(made.read, " ")] = func(ctx context.Context) (string, error) {
			text, err := exec.CommandContext(ctx, made.read[0], made.read[1:]...).Output()
			return string(text), err
		}
	}
}

func (l lookalikes) inDocker(ctx context.Context, its *somebodys) {
	cli := its.images.Engine().Client()
	for name, labels := range map[string]map[string]string{
		"plumbline-theirs": {"io.plumbline": "network"}, "plumbline-unlabelled": nil, "theirs": {"io.plumbline": "theirs"},
	} {
		made, err := cli.NetworkCreate(ctx, name, network.CreateOptions{Driver: "bridge", Labels: labels})
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error { return cli.NetworkRemove(ctx, made.ID) })
		l["network "+name] = func(ctx context.Context) (string, error) {
			n, err := cli.NetworkInspect(ctx, made.ID, network.InspectOptions{})
			return fmt.Sprintf("%+v", n), err
		}
	}
	for name, labels := range map[string]map[string]string{
		"plumbline-theirs-control": {"io.plumbline": "control", "io.plumbline.cluster": "plumbline-run"},
		"plumb-lb-theirs":          {"io.plumbline": "lb", "io.plumbline.role": "lb", "io.plumbline.cluster": "existing"},
		"theirs-of-another-host":   {"io.plumbline": "existing-aaaaa", "io.plumbline.run": "existing-aaaaa"},
		"theirs-worker":            {"io.x-k8s.kind.cluster": "plumbline-run", "io.x-k8s.kind.role": "worker"},
	} {
		made, err := cli.ContainerCreate(ctx, &container.Config{Image: its.echo, Labels: labels},
			&container.HostConfig{NetworkMode: "plumbline-theirs"}, nil, nil, name)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
			return cli.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true})
		})
		gomega.Expect(cli.ContainerStart(ctx, made.ID, container.StartOptions{})).To(gomega.Succeed())
		l["container "+name] = func(ctx context.Context) (string, error) {
			_, raw, err := cli.ContainerInspectWithRaw(ctx, made.ID, false)
			return string(raw), err
		}
	}
}

// inCluster: each object is read as the API server has it, its resourceVersion with it.
func (l lookalikes) inCluster(ctx context.Context, its *somebodys) {
	rest := its.client.CoreV1().RESTClient()
	add := func(path string, _ any, err error) {
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), path)
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
			if strings.Contains(path, "/namespaces/plumbline-theirs") && strings.Count(path, "/") > 4 {
				return nil // goes with its namespace
			}
			return rest.Delete().AbsPath(path).Do(ctx).Error()
		})
		l["object "+path] = func(ctx context.Context) (string, error) {
			text, err := rest.Get().AbsPath(path).DoRaw(ctx)
			return string(text), err
		}
	}
	core, opts := its.client.CoreV1(), metav1.CreateOptions{}
	for value, ns := range map[string]string{"theirs": "plumbline-theirs-system", "existing-aaaaa": "plumbline-theirs", "": "plumbline-existing-bbbbb-system"} {
		labels := map[string]string{"io.plumbline": value}
		made, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: labels}}, opts)
		add("/api/v1/namespaces/"+ns, made, err)
		for _, in := range []string{ns, "default"} {
			name := "plumbline-" + ns
			config, err := core.ConfigMaps(in).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, opts)
			add("/api/v1/namespaces/"+in+"/configmaps/"+name, config, err)
			secret, err := core.Secrets(in).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, opts)
			add("/api/v1/namespaces/"+in+"/secrets/"+name, secret, err)
		}
		role, err := its.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: labels}}, opts)
		add("/apis/rbac.authorization.k8s.io/v1/clusterroles/"+ns, role, err)
	}
	// It waits for a load balancer of somebody's class, and has the finalizer of one.
	class := "io.plumbline/existing-aaaaa"
	service, err := core.Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "plumbline-theirs", Labels: map[string]string{"io.plumbline": "theirs"}, Annotations: map[string]string{"io.plumbline/began": "theirs"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, Ports: []corev1.ServicePort{{Port: 80}}},
	}, opts)
	add("/api/v1/namespaces/default/services/plumbline-theirs", service, err)
}

// plantLinks puts links to a file of somebody's, as HAProxy's user could, at whatever name
// there is in the folders that are that user's, until it is told to stop: once at each. It
// says how many.
func plantLinks(victim string, stop <-chan struct{}) int {
	planted := map[string]bool{}
	for {
		select {
		case <-stop:
			return len(planted)
		case <-time.After(20 * time.Millisecond):
		}
		dirs, _ := filepath.Glob(filepath.Join(stage.StateDir, host.RunsDir, "*", "lb", "*"))
		for _, dir := range dirs {
			plantBelow(dir, victim, planted)
		}
	}
}

func plantBelow(dir, victim string, planted map[string]bool) {
	names := []string{"haproxy.cfg", "haproxy.pid", "haproxy.state", "servers.state"}
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() != fs.ModeSymlink {
			names = append(names, d.Name(), d.Name()+".new", d.Name()+".tmp")
		}
		return nil
	})
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || !d.IsDir() || unix.Lstat(path, &st) != nil || st.Uid == 0 {
			return nil
		}
		for _, name := range names {
			if link := filepath.Join(path, name); !planted[link] && linkAs(int(st.Uid), int(st.Gid), victim, link) == nil {
				planted[link] = true
			}
		}
		return nil
	})
}

// linkAs makes a link with the rights of a user, which the thread has for that time.
func linkAs(uid, gid int, target, link string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer func() {
		_, _ = unix.SetfsuidRetUid(0)
		_, _ = unix.SetfsgidRetGid(0)
	}()
	if _, err := unix.SetfsgidRetGid(gid); err != nil {
		return err
	}
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		return err
	}
	return os.Symlink(target, link)
}

// ending is how a run of a pair ends: by itself, and well, or killed at a moment.
func ending(ctx context.Context, kill time.Duration, args ...string) error {
	b, err := begin(ctx, args...)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- b.end() }()
	if kill == 0 {
		return <-ended
	}
	select {
	case err := <-ended:
		return fmt.Errorf("it ended before it was killed, after %s: %w", kill, err)
	case <-time.After(kill):
	}
	err = b.cmd.Process.Kill()
	if _, exited := errors.AsType[*exec.ExitError](<-ended); !exited {
		err = errors.Join(err, errors.New("it ended well all the same"))
	}
	return err
}

// amongLookalikes makes twenty runs, two at a time, on somebody's cluster and in labs, of
// which ten are killed, and looks that nothing of somebody's has changed.
func amongLookalikes(ctx context.Context, its *somebodys) {
	inCluster, err := inventory(ctx, its.client)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	onHost := withoutLock(snapshot(ctx))
	ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) { // when they are gone, of which this is the last
		gomega.Expect(withoutLock(snapshot(ctx))).To(gomega.Equal(onHost), "without them the host is as before")
		gomega.Eventually(ctx, func() ([]string, error) { return inventory(ctx, its.client) }).WithTimeout(takeDown).Should(gomega.Equal(inCluster), "and so is the cluster")
	})
	look := makeLookalikes(ctx, its)
	victim := filepath.Join(ginkgo.GinkgoT().TempDir(), "victim")
	gomega.Expect(os.WriteFile(victim, []byte("theirs"), 0o600)).To(gomega.Succeed())
	look["file "+victim] = func(context.Context) (string, error) {
		var st unix.Stat_t
		if err := unix.Lstat(victim, &st); err != nil {
			return "", err
		}
		st.Atim = unix.Timespec{} // this one reads it too
		text, err := os.ReadFile(victim)
		return fmt.Sprintf("%+v %s", st, text), err
	}
	before := look.read(ctx)
	withThem, err := inventory(ctx, its.client)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	stop, planted := make(chan struct{}), make(chan int)
	go func() { planted <- plantLinks(victim, stop) }()
	halt := sync.OnceValue(func() int { close(stop); return <-planted })
	defer halt()

	run := func(name string) []string {
		args := []string{"run", "-v", "--name=" + name, "--rollouts=1", "--delay=8s", "--profile=l4-fast", "--results=" + filepath.Join(opts.results, name)}
		if name == "inventory-lab" {
			return append(args, "--cluster=lab", "--rows=plumb-nftables:fallback")
		}
		return append(args, "--cluster=existing", "--kubeconfig="+its.kubeconfig, "--rows=existing", "--lb=ours", "--echo-image="+its.echo)
	}
	soonest := map[string]time.Duration{"inventory-lab": 12 * time.Second, "inventory-a": 25 * time.Second, "inventory-b": 25 * time.Second}
	for n := range 10 {
		pair := [][]string{{"inventory-a", "inventory-lab"}, {"inventory-a", "inventory-b"}, {"inventory-lab", "inventory-a"}, {"inventory-b", "inventory-a"}}[n%4]
		goesOn, killed := pair[0], pair[1]
		when := rand.N(soonest[killed])
		ginkgo.GinkgoWriter.Printf("%s goes on, %s is killed after %s\n", goesOn, killed, when)
		ended := make(chan error)
		go func() { ended <- ending(ctx, when, run(killed)...) }()
		on := ending(ctx, 0, run(goesOn)...)
		gomega.Expect(errors.Join(on, <-ended)).NotTo(gomega.HaveOccurred(), "pair %d: %s beside %s, which is killed after %s", n, goesOn, killed, when)
		gomega.Expect(look.changed(ctx, before)).To(gomega.BeEmpty(), "pair %d: what is somebody's", n)
	}
	for name := range soonest { // what was killed last is taken away by the next of its name
		gomega.Expect(ending(ctx, 0, run(name)...)).To(gomega.Succeed())
	}
	links := halt()
	gomega.Expect(plumbline(ctx, "clean")).To(gomega.Succeed())
	gomega.Expect(look.changed(ctx, before)).To(gomega.BeEmpty(), "after clean: what is somebody's")
	gomega.Expect(inventory(ctx, its.client)).To(gomega.Equal(withThem), "and nothing of ours is left in the cluster")
	fmt.Printf("20 runs among %d lookalikes, ten killed, %d links planted: none has changed\n", len(look), links)
	gomega.Expect(links).To(gomega.BeNumerically(">", 100))
}
