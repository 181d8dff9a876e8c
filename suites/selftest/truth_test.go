package selftest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

// What a run says of trouble that was put into its lab is held against the log of who put it
// there: 72 stretches of 50 ms to 3 s, of three kinds at three hops, and some in which packets
// wait or processes stand still.
var _ = ginkgo.Describe("the truth of a measurement", ginkgo.Ordered, func() {
	var inject string

	ginkgo.BeforeAll(func() { inject = injector() })

	for _, t := range []struct {
		does string
		todo []cell
	}{{"ends requests", cells()}, {"makes them late", latecomers()}} {
		ginkgo.It("lost and slow are what met trouble that "+t.does+", in its window, at its hop and for its cause", func(ctx ginkgo.SpecContext) {
			todo, all := t.todo, len(t.todo)
			rng := rand.New(rand.NewPCG(uint64(ginkgo.GinkgoRandomSeed()), 0))
			rng.Shuffle(all, func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
			table := troubled(ctx, inject, todo)
			ginkgo.AddReportEntry("injections", ginkgo.ReportEntryVisibilityAlways, "\n"+strings.Join(table.lines, "\n"))
			gomega.Expect(table.seen).To(gomega.Equal(all), "every one of them fell into a rollout")
			gomega.Expect(table.wrong).To(gomega.BeEmpty())
			gomega.Expect(table.named*10).To(gomega.BeNumerically(">=", table.all*9), "nine of ten causes by name, the others as not known")
		})
	}
})

// What the states of a rollout do not explain is marked, whatever else was lost or saved in it.
var _ = ginkgo.Describe("what a reconstruction does not see", ginkgo.Ordered, func() {
	var inject string

	ginkgo.BeforeAll(func() { inject = injector() })

	for _, c := range []cell{
		{"node", "thin", 3 * time.Second}, {"node", "drop-data", 3 * time.Second}, {"node", "drop", 3 * time.Second},
		{observer, "drop", 3 * time.Second}, {"balancer", "freeze", 3 * time.Second}, {check, "reject", 6 * time.Second}, {checkOfAll, "reject", 6 * time.Second},
	} {
		ginkgo.It(fmt.Sprintf("%s at the %s", c.kind, c.hop), func(ctx ginkgo.SpecContext) {
			r := troubled(ctx, inject, []cell{c}).rollouts
			gomega.Expect(r).To(gomega.HaveLen(1))
			rec := r[0].Reconstruction
			ginkgo.AddReportEntry("reconstruction", ginkgo.ReportEntryVisibilityAlways, fmt.Sprintf("lost %d, slow %d, %+v; %s", r[0].Lost, r[0].Slow, rec, strings.Join(r[0].Warnings, "; ")))
			gomega.Expect(rec.Possible).To(gomega.BeTrue())
			gomega.Expect(rec.Within).To(gomega.BeFalse(), "%+v", rec)
			said, cause := "whole requests from the balancer's address", verdict.Cause("")
			switch c.hop {
			case check:
				said, cause = "requests met no server UP, though a pod on", verdict.CauseNoServer
			case checkOfAll:
				said, cause = "requests met no server UP, though a pod on", verdict.CauseCheckFailed
			}
			gomega.Expect(strings.Join(r[0].Warnings, "\n")).To(gomega.ContainSubstring(said))
			if cause != "" {
				gomega.Expect(r[0].Causes).To(gomega.Equal(map[verdict.Cause]int{cause: r[0].Lost}))
			}
		})
	}
})

// injector builds the program that puts trouble into namespaces.
func injector() string {
	ginkgo.GinkgoHelper()
	only("lab")
	program, err := gexec.Build("github.com/plumbline/plumbline/suites/selftest/inject")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(gexec.CleanupBuildArtifacts)
	return program
}

// Hops of the node: for those alone who watch it; its health check port, for the balancer alone and
// for all.
const (
	observer   = "observer"
	check      = "health check"
	checkOfAll = "health check, for all"
)

// cell is one injection.
type cell struct {
	hop, kind string
	length    time.Duration
}

func cells() []cell {
	var all []cell
	for _, length := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second, 3 * time.Second} {
		for _, hop := range []string{"balancer", "node", "pod"} {
			for _, kind := range []string{"drop", "reject", "reset"} {
				all = append(all, cell{hop, kind, length}, cell{hop, kind, length})
			}
		}
	}
	return all
}

// latecomers are stretches after which all are answered.
func latecomers() []cell {
	var all []cell
	for _, hop := range []string{"balancer", "node", "pod"} {
		all = append(all, cell{hop, delay, 200 * time.Millisecond}, cell{hop, delay, time.Second})
	}
	return append(all, cell{"balancer", freeze, time.Second}, cell{"pod", freeze, 600 * time.Millisecond})
}

// Kinds of latecomers.
const (
	delay  = "delay"
	freeze = "freeze"
)

// cause is what a run must say of a cell, or that it does not know.
func (c cell) cause() verdict.Cause {
	return map[string]verdict.Cause{
		"balancer drop": verdict.CauseLBSilent, "balancer reject": verdict.CauseLBRefused, "balancer reset": verdict.CauseLBReset,
		"node drop": verdict.CauseNodeDrop, "node reject": verdict.CauseNodeReject, "node reset": verdict.CauseNodeReset,
		"balancer delay": verdict.CauseLBSilent, "node delay": verdict.CauseNodeDrop, "pod delay": verdict.CausePodDrop,
		"balancer freeze": verdict.CauseLBSilent, "pod freeze": verdict.CausePod,
		"pod drop": verdict.CausePodDrop, "pod reject": verdict.CausePodReject, "pod reset": verdict.CausePodReset,
	}[c.hop+" "+c.kind]
}

// Times of a rollout whose old pod goes on serving for long: when all has moved to the new
// one, until when it stays so, and what lies between two injections.
const (
	oldServes = 75 * time.Second
	calmAfter = 12 * time.Second
	calmUntil = 66 * time.Second
	between   = 3200 * time.Millisecond // longer than the client's patience
)

// injections is what a run said of all of them.
type injections struct {
	seen       int
	all, named int // losses and slow answers: in all, and with the right cause
	lines      []string
	wrong      []string
	rollouts   []verdict.Rollout // those with an injection
}

// troubled runs rollouts until all cells were put into one, and compares.
func troubled(ctx context.Context, inject string, todo []cell) injections {
	ginkgo.GinkgoHelper()
	gomega.Expect(os.MkdirAll(opts.results, 0o755)).To(gomega.Succeed())
	results, err := os.MkdirTemp(opts.results, "truth-")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	log := filepath.Join(results, "injected.jsonl")
	rollouts, serves := 1+len(todo)/12, oldServes
	alone := len(todo) == 1
	if alone {
		serves = 30 * time.Second
	}
	r, err := begin(ctx, "run", "--cluster=lab", "--name=truth", "--rows=plumb-nftables:fallback", fmt.Sprintf("--rollouts=%d", rollouts),
		"--delay="+serves.String(), "--profile=l4-fast", "--results="+results)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(r.await("it forwards")).To(gomega.Succeed())
	ended := make(chan error, 1)
	go func() { ended <- r.end() }()
	for n := 1; len(todo) > 0; n++ {
		dir := awaitRollout(ctx, results, n, ended)
		if dir == "" {
			break
		}
		todo = injectInto(ctx, inject, log, dir, todo, !alone)
	}
	if err := <-ended; err != nil { // lost requests are what it is for
		exit, ok := errors.AsType[*exec.ExitError](err)
		gomega.Expect(ok && exit.ExitCode() != -1).To(gomega.BeTrue(), "%v", err)
	}
	return compared(results, log)
}

// awaitRollout waits for the n-th rollout's folder; empty: the run has ended.
func awaitRollout(ctx context.Context, results string, n int, ended chan error) string {
	ginkgo.GinkgoHelper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		// The second file of a rollout: its first is written then.
		found, err := filepath.Glob(filepath.Join(results, "*", "01-*", fmt.Sprintf("rollout-%02d", n), "requests.jsonl"))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		if len(found) == 1 {
			return filepath.Dir(found[0])
		}
		select {
		case <-ticker.C:
		case err := <-ended:
			ended <- err
			return ""
		case <-ctx.Done():
			ginkgo.Fail("the run goes on without a rollout: " + ctx.Err().Error())
		}
	}
}

// ephemeral is the first port that a kernel gives to who asks for none, as HAProxy does; those who
// watch keep below.
const ephemeral = 32768

// injectInto puts as many cells into a rollout as fit, and returns the others. Counted are those
// that only what is counted shall meet.
func injectInto(ctx context.Context, inject, log, dir string, todo []cell, counted bool) []cell {
	ginkgo.GinkgoHelper()
	began := time.Now()
	ports := settingsOf(dir).Ports
	sleepUntil(ctx, began.Add(calmAfter))
	lb, client, nodes, pods := places()
	for len(todo) > 0 && time.Since(began)+todo[0].length < calmUntil {
		c := todo[0]
		todo = todo[1:]
		at := map[string][]string{"balancer": {lb}, "node": nodes, "pod": pods, observer: nodes, check: nodes, checkOfAll: nodes}[c.hop]
		port := map[string]uint16{"balancer": 80, "node": ports.Node, "pod": ports.Pod, observer: ports.Node, check: ports.Health, checkOfAll: ports.Health}[c.hop]
		args := []string{"-namespace=" + strings.Join(at, ","), "-hop=" + c.hop, "-kind=" + c.kind, "-for=" + c.length.String(), fmt.Sprintf("-port=%d", port), "-log=" + log}
		switch c.hop {
		case "node", "pod": // the kubelet's probes of the pod shall not meet it, nor those who watch the node
			args = append(args, "-source="+addressIn(lb).String())
			if counted {
				args = append(args, fmt.Sprintf("-from-port=%d", ephemeral))
			}
		case observer:
			args = append(args, "-source="+addressIn(client).String())
		case check:
			args = append(args, "-source="+addressIn(lb).String())
		}
		cmd := exec.CommandContext(ctx, inject, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it takes back what it did
		cmd.WaitDelay = takeDown
		out, err := cmd.CombinedOutput()
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), string(out))
		sleepUntil(ctx, time.Now().Add(between))
	}
	return todo
}

func settingsOf(dir string) verdict.Settings {
	ginkgo.GinkgoHelper()
	b, err := os.ReadFile(filepath.Join(dir, "rollout.json"))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	var r struct{ Settings verdict.Settings }
	gomega.Expect(json.Unmarshal(b, &r)).To(gomega.Succeed())
	return r.Settings
}

func sleepUntil(ctx context.Context, at time.Time) {
	ginkgo.GinkgoHelper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		ginkgo.Fail(ctx.Err().Error())
	}
}

// places are the namespaces of the lab: the balancer's, the clients', the nodes' and the pods'.
func places() (lb, client string, nodes, pods []string) {
	ginkgo.GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(netns.Dir, netns.Prefix+"truth-*"))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for _, f := range files {
		name := filepath.Base(f)
		_, role, isNode := strings.Cut(name, "-node-")
		switch {
		case isNode && strings.Contains(role, "-p"):
			pods = append(pods, name)
		case isNode:
			nodes = append(nodes, name)
		case strings.Contains(name, "-lb-"):
			lb = name
		case strings.HasSuffix(name, "-client"):
			client = name
		}
	}
	gomega.Expect([]int{len(lb), len(client), len(nodes), len(pods)}).NotTo(gomega.ContainElement(0), "%v", files)
	return lb, client, nodes, pods
}

// addressIn is the address of a namespace's eth0.
func addressIn(namespace string) (addr netip.Addr) {
	ginkgo.GinkgoHelper()
	gomega.Expect(netns.At(filepath.Join(netns.Dir, namespace)).Do(func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		list, err := link.Addrs()
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !addr.IsValid() { // the first is what it sends from
				addr = p.Addr()
			}
		}
		return err
	})).To(gomega.Succeed())
	return addr
}

// injected is a line of the injector's log.
type injected struct {
	Hop, Kind                              string
	For                                    time.Duration
	OnAfter, OnBefore, OffAfter, OffBefore int64
	Touched                                []string
	Packets                                int
}

func readInjected(log string) (all []injected) {
	ginkgo.GinkgoHelper()
	f, err := os.Open(log)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var i injected
		gomega.Expect(json.Unmarshal(lines.Bytes(), &i)).To(gomega.Succeed())
		all = append(all, i)
	}
	gomega.Expect(lines.Err()).NotTo(gomega.HaveOccurred())
	return all
}

// compared holds what the run's report says of each injection against its log.
func compared(results, log string) (out injections) {
	ginkgo.GinkgoHelper()
	dirs, err := filepath.Glob(filepath.Join(results, "*", report.SummaryFile))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(dirs).NotTo(gomega.BeEmpty())
	sum, err := report.Read(dirs[0])
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	all := readInjected(log)
	for _, r := range slices.Concat(sum.Scenarios[0].Rows[0].Rollouts, sum.Scenarios[0].Rows[0].Invalid) {
		streams, err := tape.Read(filepath.Join(filepath.Dir(dirs[0]), sum.Scenarios[0].Rows[0].Records, fmt.Sprintf("rollout-%02d", r.Number)))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		in := streams[0]
		before := out.seen
		for _, i := range all {
			if i.OnAfter > in.Attempts[0].Intended && i.OffBefore < in.Attempts[len(in.Attempts)-1].Intended {
				out.add(r, in, i)
			}
		}
		if out.seen > before {
			out.rollouts = append(out.rollouts, r)
		}
	}
	return out
}

// add compares one injection with one rollout's verdict.
func (out *injections) add(r verdict.Rollout, in verdict.Input, i injected) {
	out.seen++
	c := cell{i.Hop, i.Kind, i.For}
	zero := originOf(in.Events)
	rel := func(t int64) float64 { return float64(t-zero) / 1e9 }
	from, to := rel(i.OnAfter), rel(i.OffBefore)
	lost, slow, causes, hops := 0, 0, map[verdict.Cause]int{}, map[verdict.Hop]int{}
	for _, p := range r.Series.Points {
		if p.T < from-0.5 || p.T > to+0.5 || !p.Class.Lost() && !p.Class.Slow() || p.Cause == verdict.CauseHarness {
			continue
		}
		if p.Class.Lost() {
			lost++
		} else {
			slow++
		}
		causes[p.Cause]++
		hops[p.Cause.Hop()]++
	}
	met := i.clients(in)
	start, end := windowAt(r, from, to)
	line := fmt.Sprintf("%s %s %v: met %d, lost %d, slow %d, window %+.1f/%+.1f ms, causes %v", i.Hop, i.Kind, i.For, met, lost, slow, (start-rel(i.OnBefore))*1e3, (end-rel(i.OffAfter))*1e3, causes)
	out.lines = append(out.lines, line)
	bad := func(is bool, what string) {
		if is {
			out.wrong = append(out.wrong, what+": "+line)
		}
	}
	out.all += lost + slow
	out.named += causes[c.cause()]
	bad(met == 0, "nothing met it")
	unsure, early := 0, 0.0
	if i.Kind == freeze { // who came so late that the wait was short is not slow; what has piled up takes 50 ms
		unsure, early = 5, verdict.SlowAfter.Seconds()
	}
	bad(lost+slow > met+unsure || lost+slow < met-unsure, "not as many as met it")
	bad(hops[verdict.Hop(i.Hop)]+hops[verdict.HopUnknown] != lost+slow, "another hop")
	bad(causes[c.cause()]+causes[verdict.CauseUnknown] != lost+slow, "another cause")
	edge := 0.005 + 0.0125 + r.Harness.Late.P99 // and the longest distance of two arrivals, which may be late
	bad(start-rel(i.OnBefore) > edge || rel(i.OnAfter)-start > edge || end-rel(i.OffAfter) > edge || rel(i.OffAfter)-end > edge+early, "another window")
}

// windowAt is the stretch of the windows around an injection.
func windowAt(r verdict.Rollout, from, to float64) (start, end float64) {
	for _, w := range r.NodeWindows {
		if w.End < from-0.5 || w.Start > to+0.5 {
			continue
		}
		if start == 0 || w.Start < start {
			start = w.Start
		}
		end = max(end, w.End)
	}
	return start, end
}

// originOf is when the old pod was deleted.
func originOf(events []record.Event) int64 {
	for _, e := range events {
		if e.Kind == record.KindPod && e.State == "deleting" {
			return e.At
		}
	}
	return 0
}

// clients is how many attempts the senders that met the rule belong to: the clients
// themselves, or the balancer's ends of connections for them. A client that is refused at once
// may have its port again for the next attempt: of those the packets are counted.
func (i injected) clients(in verdict.Input) int {
	met := 0
	switch {
	case i.Kind == freeze: // it sees no packets: who came while they stood still
		for _, a := range in.Attempts {
			if a.Start > i.OnBefore && a.Start < i.OffAfter-verdict.SlowAfter.Nanoseconds() {
				met++
			}
		}
		return met
	case i.Hop == "balancer" && i.Kind == "reject":
		return i.Packets
	case i.Hop == "balancer":
		return len(i.Touched)
	}
	for _, c := range in.Conns {
		if c.Server != haproxy.NoServer && slices.Contains(i.Touched, c.Source.String()) && c.At > i.OnAfter && c.Accepted < i.OffBefore {
			met++
		}
	}
	return met
}
