package selftest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/plumbline/plumbline/suites/stage"
)

// A run that is stopped at any step leaves a host that `plumbline clean` makes
// as it was, and on which the next run works. An interrupt needs no clean: the
// run takes everything down itself.
var _ = ginkgo.Describe("stopping a run", ginkgo.Ordered, func() {
	var before []string
	// The runs are programs of their own; this one stays outside of what they make.

	ginkgo.BeforeAll(func(ctx ginkgo.SpecContext) {
		only("kind", "lab")
		gomega.Expect(plumbline(ctx, "clean")).To(gomega.Succeed(), "start from a clean host")
		before = snapshot(ctx)
	})

	for _, at := range moments() {
		ginkgo.It("kill -9 while "+at.name, func(ctx ginkgo.SpecContext) {
			only(at.cluster)
			gomega.Expect(stopAt(ctx, at.said, syscall.SIGKILL)).To(gomega.Succeed())
			gomega.Expect(plumbline(ctx, "clean")).To(gomega.Succeed())
			gomega.Expect(snapshot(ctx)).To(gomega.Equal(before), "after clean the host is as before")
		})
	}

	for _, at := range moments() {
		if at.said != "step=nodes" && at.said != "msg=recording" {
			continue
		}
		ginkgo.It("interrupt while "+at.name, func(ctx ginkgo.SpecContext) {
			only(at.cluster)
			gomega.Expect(stopAt(ctx, at.said, syscall.SIGINT)).To(gomega.Succeed())
			gomega.Expect(withoutLock(snapshot(ctx))).To(gomega.Equal(withoutLock(before)), "the run itself left the host as before")
		})
	}

	ginkgo.It("two labs of one name, one killed: clean takes its things and leaves the other's", func(ctx ginkgo.SpecContext) {
		only("lab")
		killed, err := begin(ctx, runArgs()...)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		goesOn, err := begin(ctx, runArgs()...)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(killed.await("msg=recording")).To(gomega.Succeed())
		gomega.Expect(goesOn.await("msg=recording")).To(gomega.Succeed())
		pods := regexp.MustCompile(`-node-[0-9]+-p[0-9a-f]+$|/plumbline-[a-z0-9-]+-test_`) // come and go with a rollout
		of := func(r *begun) []string {
			return slices.DeleteFunc(snapshot(ctx), func(l string) bool {
				return !strings.Contains(l, r.id) || r.cmd.ProcessState == nil && pods.MatchString(l)
			})
		}
		both := [][]string{of(killed), of(goesOn)}
		gomega.Expect(both).To(gomega.HaveEach(gomega.HaveLen(len(both[0]))), "things that carry the id of each")
		gomega.Expect(plumbline(ctx, "clean")).To(gomega.Succeed())
		gomega.Expect([][]string{of(killed), of(goesOn)}).To(gomega.Equal(both), "clean beside two live labs")
		gomega.Expect(killed.cmd.Process.Kill()).To(gomega.Succeed())
		_ = killed.end()
		gomega.Expect(plumbline(ctx, "clean")).To(gomega.Succeed())
		gomega.Expect([][]string{of(killed), of(goesOn)}).To(gomega.Equal([][]string{{}, both[1]}), "clean beside a dead and a live lab")
		gomega.Expect(goesOn.end()).To(gomega.Succeed(), "the other has its verdict")
		gomega.Expect(plumbline(ctx, "clean")).To(gomega.Succeed())
		gomega.Expect(snapshot(ctx)).To(gomega.Equal(before))
	})

	ginkgo.It("a run after a killed one works without clean", func(ctx ginkgo.SpecContext) {
		gomega.Expect(stopAt(ctx, "msg=recording", syscall.SIGKILL)).To(gomega.Succeed())
		gomega.Expect(plumbline(ctx, runArgs()...)).To(gomega.Succeed())
		gomega.Expect(plumbline(ctx, "clean")).To(gomega.Succeed())
		gomega.Expect(snapshot(ctx)).To(gomega.Equal(before))
	})
})

// moment is a step of a run, by what the run says when it begins it.
type moment struct{ cluster, name, said string }

func moments() []moment {
	return []moment{
		{"kind", "making the network", "step=network"},
		{"kind", "making nodes", "step=nodes"},
		{"kind", "waiting for nodes", "step=ready"},
		{"kind", "starting the provider", `name="load balancer provider"`},
		{"kind", "installing a dataplane", "msg=row"},
		{"kind", "recording a rollout", "msg=recording"},
		{"lab", "making a lab's network", "msg=step name=network"},
		{"lab", "serving a lab's API", `msg=step name="control plane"`},
		{"lab", "starting a lab's kubelets", "msg=step name=kubelets"},
		{"lab", "starting a lab's control server", `msg=step name="control server"`},
		{"lab", "waiting for a lab's nodes", "msg=step name=ready"},
		{"lab", "starting a lab's pods", "msg=step name=witness"},
		{"lab", "starting a lab's provider", `name="load balancer provider"`},
		{"lab", "installing a dataplane in a lab", "msg=row"},
		{"lab", "recording a rollout in a lab", "msg=recording"},
	}
}

func runArgs() []string {
	name := map[string]string{"kind": "plumbline-stop", "lab": "stop"}[opts.cluster]
	return []string{"run", "-v", "--cluster=" + opts.cluster, "--name=" + name, "--rows=plumb-nftables:fallback", "--rollouts=1", "--delay=8s", "--await-quiet=0",
		"--results=" + filepath.Join(opts.results, "stopped")}
}

func program() (string, error) {
	root, err := stage.SourceRoot()
	return filepath.Join(root, "bin", "plumbline"), err
}

// plumbline runs the CLI to its end.
func plumbline(ctx context.Context, args ...string) error {
	bin, err := program()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, bin, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("plumbline %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// stopAt starts a run, and sends it a signal when it says something.
func stopAt(ctx context.Context, said string, sig syscall.Signal) error {
	code, err := endAt(ctx, said, sig, runArgs()...)
	if err == nil && sig == syscall.SIGINT && code != 2 {
		err = fmt.Errorf("a run interrupted at %q exits with %d, want 2", said, code)
	}
	return err
}

// endAt sends the CLI a signal when it says something, and returns its exit status.
func endAt(ctx context.Context, said string, sig syscall.Signal, args ...string) (code int, err error) {
	b, err := begin(ctx, args...)
	if err != nil {
		return 0, err
	}
	if err = b.await(said); err == nil {
		err = b.cmd.Process.Signal(sig)
	}
	if _, exited := errors.AsType[*exec.ExitError](b.end()); !exited || err != nil {
		return 0, fmt.Errorf("the run did not end by a signal at %q: %w", said, cmp.Or(err, errors.New("it ended well")))
	}
	return b.cmd.ProcessState.ExitCode(), nil
}

// begun is a run that goes on.
type begun struct {
	id    string
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func begin(ctx context.Context, args ...string) (*begun, error) {
	bin, err := program()
	if err != nil {
		return nil, err
	}
	b := &begun{cmd: exec.CommandContext(ctx, bin, args...)}
	stderr, err := b.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	b.lines = bufio.NewScanner(stderr)
	return b, b.cmd.Start()
}

// await waits until the run says something.
func (b *begun) await(said string) error {
	last := ""
	for b.lines.Scan() {
		last = b.lines.Text()
		if _, id, ok := strings.Cut(last, `msg="run begins" run=`); ok {
			b.id = id
		}
		if strings.Contains(last, said) {
			return nil
		}
	}
	return fmt.Errorf("the run never said %q; its last line: %s", said, last)
}

func (b *begun) end() error {
	for b.lines.Scan() {
	}
	return b.cmd.Wait()
}

// snapshot lists what a run might leave on this host, or might wrongly take
// away: everything Docker holds, tables, namespaces, links, processes, files.
func snapshot(ctx context.Context) []string {
	var out []string
	for _, argv := range [][]string{
		{"docker", "ps", "--all", "--format", "container {{.Names}}"}, // a lab's host may have none
		{"docker", "network", "ls", "--format", "network {{.Name}}"},
		{"docker", "volume", "ls", "--format", "volume {{.Name}}"},
		{"nft", "list", "tables"},
		{"ip", "netns", "list"},
		{"ip", "-brief", "link"},
	} {
		text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		if argv[0] == "docker" && opts.cluster == "lab" && err != nil {
			continue
		}
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), strings.Join(argv, " "))
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if argv[0] == "ip" {
				line, _, _ = strings.Cut(line, " ") // without states and addresses
			}
			out = append(out, line)
		}
	}
	out = append(out, files(stage.StateDir)...)
	tmp, err := filepath.Glob(filepath.Join(os.TempDir(), "plumbline-*"))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	out = append(out, tmp...)
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for _, exe := range exes {
		if target, err := os.Readlink(exe); err == nil && strings.HasPrefix(filepath.Base(target), "plumb") {
			out = append(out, "process "+filepath.Base(target))
		}
	}
	slices.Sort(out)
	return out
}

func files(dir string) []string {
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), "dockerd.") {
			out = append(out, path)
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "list "+dir)
	}
	return out
}

// withoutLock leaves out the lock file, which only clean removes.
func withoutLock(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasSuffix(l, "/run.lock") || strings.HasSuffix(l, "/runs.lock") })
}
