package lifecycle

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/suites/stage"
)

// recording is what a real kubelet did.
const recording = "testdata/kubelet-v1.36.3.txt"

// options are the suite's flags, read once before it runs.
type options struct {
	record  int
	out     string
	lives   string
	verbose bool
	stage   stage.Options
	entered error // why this process is not where the clients are
}

var opts = options{stage: stage.Options{Profile: "l4-fast"}}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run starts this program anew inside the lab, as far as it can be; the test says
// what is missing.
func run(m *testing.M) int {
	own := pflag.NewFlagSet("stage", pflag.ContinueOnError)
	opts.stage.Flags(own)
	own.CopyToGoFlagSet(flag.CommandLine)
	flag.IntVar(&opts.record, "record", 0, "play the script so many times on --cluster=kind and add that to "+recording)
	flag.StringVar(&opts.lives, "lives", "", "play only lives that match this")
	flag.StringVar(&opts.out, "out", "", "write what happened to this file too")
	flag.BoolVar(&opts.verbose, "verbose", false, "log why, not only what")
	if err := setDefault("cluster", "lab"); err != nil {
		fmt.Fprintln(os.Stderr, "lifecycle:", err)
		return 2
	}
	flag.Parse()
	if os.Geteuid() == 0 && flag.Lookup("test.list").Value.String() == "" && asked("TestLivesAreThoseOfAKubelet") {
		opts.entered = opts.enter()
	}
	status := m.Run()
	if err := opts.stage.Leave(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "lifecycle:", err)
		return 2
	}
	return status
}

// asked tells whether --test.run picks a test: the others need no lab.
func asked(test string) bool {
	picked, err := regexp.MatchString(flag.Lookup("test.run").Value.String(), test)
	return picked || err != nil
}

// setDefault gives a flag of the stage another value to begin with: the test is
// one of the lab.
func setDefault(name, value string) error {
	f := flag.Lookup(name)
	f.DefValue = value
	return f.Value.Set(value)
}

func (o *options) enter() error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case o.record < 0 || o.record > 0 && o.stage.Cluster == "lab":
		return errors.New("--record: a positive number, and another --cluster than lab")
	case o.stage.Cluster == "lab" && o.stage.Name == "":
		o.stage.Name = "life"
	}
	return stage.Enter(context.Background(), &o.stage, slog.Default())
}

// A pod of the lab lives as with a real kubelet.
func TestLivesAreThoseOfAKubelet(t *testing.T) {
	need.Root(t)
	if opts.entered != nil {
		t.Fatal(opts.entered)
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	runs, version := playAll(ctx, t, max(opts.record, 1))
	if opts.out != "" {
		write(t, opts.out, runs, opts.stage.Cluster, version)
	}
	recorded := read(t)
	if opts.record > 0 {
		write(t, recordingPath(t), append(recorded, runs...), opts.stage.Cluster, version)
		return
	}
	if len(recorded) == 0 {
		t.Fatalf("nothing is recorded in %s", recording)
	}
	var table strings.Builder
	Table(&table, recorded, runs[0])
	t.Log(table.String())
	if opts.lives != "" {
		return // one by one, to look at
	}
	for _, d := range Compare(recorded, runs[0]) {
		if slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(d, k) }) {
			t.Log("known: " + d)
			continue
		}
		t.Error(d)
	}
}

// playAll plays the script so many times on one cluster.
func playAll(ctx context.Context, t *testing.T, times int) (runs []Run, version string) {
	t.Helper()
	lives, err := regexp.Compile(opts.lives)
	if err != nil {
		t.Fatalf("--lives: %v", err)
	}
	o := opts.stage
	o.Dir = t.TempDir()
	level := slog.LevelWarn
	if opts.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	st, err := stage.Open(ctx, o, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	config := rest.CopyConfig(st.Cluster().RESTConfig())
	config.QPS = -1 // lives are not to wait for each other
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	served, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	at := Place{Client: client, Run: st.Run(), Image: st.Echo(), Lives: lives}
	if st.Kind() == "lab" {
		at.Files = filepath.Join(o.Dir, "lab")
	}
	for n := range times {
		at.Namespace = st.Run().Namespace(fmt.Sprintf("life-%d", n+1))
		began := time.Now()
		r, err := Play(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("play %d took %s", n+1, time.Since(began).Round(time.Second))
		runs = append(runs, r)
	}
	return runs, served.GitVersion
}

// write writes runs to a file.
func write(t *testing.T, path string, runs []Run, where, version string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	title := fmt.Sprintf("Lives of pods on %s with Kubernetes %s (suites/lifecycle/doc.go): time, change of the API, pod, facet, value.", where, version)
	if err := errors.Join(Write(f, title, runs), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// read is what was recorded so far.
func read(t *testing.T) []Run {
	t.Helper()
	f, err := os.Open(recordingPath(t))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runs, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// recordingPath is where it lies in the source tree, wherever this program runs.
func recordingPath(t *testing.T) string {
	t.Helper()
	root, err := stage.SourceRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "suites/lifecycle", recording)
}
