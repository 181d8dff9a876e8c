package lb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/cloud-provider/service/helpers"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/plumbline/plumbline/lbprovider"
	"github.com/plumbline/plumbline/lbprovider/balancer"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// workers is how many Services are worked on at once; one that waits for its
// first round of checks holds one of them.
const workers = 5

// requestsPerSecond is what Kubernetes' own controllers are given in large clusters;
// client-go's 5 would have a Service wait for others' Events.
const requestsPerSecond = 100

// server is everything of one run.
type server struct {
	opts     options
	log      *slog.Logger
	kube     kubernetes.Interface
	backend  *backend
	recorder *records.Recorder
	fleet    *balancer.Fleet
	lock     *os.File
}

// prepare checks all that a run needs and changes nothing of the cluster or
// of load balancers that run. On an error nothing is left open that matters: the process ends.
func prepare(ctx context.Context, o options, log *slog.Logger) (*server, error) {
	s := &server{opts: o, log: log}
	klogVerbosity(o.verbosity)
	if _, err := os.ReadFile(o.kubeconfig); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %s", o.kubeconfig, oneLine(err))
	}
	rest.UserAgent = "plumb-lb"
	rest.QPS, rest.Burst = requestsPerSecond, 2*requestsPerSecond
	if s.kube, err = kubernetes.NewForConfig(rest); err != nil {
		return nil, fmt.Errorf("set up the client of %s: %w", o.kubeconfig, err)
	}
	if o.scope, err = scopeOf(rest, o); err != nil {
		return nil, err
	}
	if s.backend, err = newBackend(ctx, o, log); err != nil {
		return nil, err
	}
	if s.lock, err = lockStateDir(o.stateDir); err != nil {
		return nil, err
	}
	if err := claim(o.stateDir, o.scope); err != nil {
		return nil, err
	}
	if err := s.backend.adopt(); err != nil {
		return nil, err
	}
	if s.recorder, err = records.New(o.records, log); err != nil {
		return nil, err
	}
	c := s.backend.config
	c.Cluster, c.Ranges, c.Profile, c.StateDir = o.cluster, o.ranges, o.profile, o.stateDir
	c.Recorder, c.ClearStatus, c.Log = s.recorder, s.clearStatus, log
	s.fleet = balancer.New(c)
	return s, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func klogVerbosity(v int) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Set("v", strconv.Itoa(v)); err != nil {
		panic(err) // an int is a verbosity
	}
}

// lockStateDir keeps a second provider of the same cluster out: both would
// bind the same log sockets.
func lockStateDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("state directory %s is in use by another plumb-lb: %w", dir, err), f.Close())
	}
	return f, nil
}

// run serves until ctx ends, and reloads at every hangup. Load balancers stay.
func (s *server) run(ctx context.Context, hangups <-chan os.Signal) error {
	if s.backend.note != "" {
		s.log.Warn(s.backend.note)
	}
	served, err := s.backend.config.Instances.List(ctx)
	if err != nil {
		return fmt.Errorf("look for load balancers that run: %w", err)
	}
	var known []types.UID
	for _, i := range served {
		known = append(known, types.UID(i.UID))
	}
	factory, err := watch(s.kube, s.opts.namespace, s.opts.class, known)
	if err != nil {
		return err
	}
	core := factory.Core().V1()
	controller, err := service.New(lbprovider.New(s.fleet), s.kube, core.Services(), core.Nodes(), s.opts.cluster, featuregate.NewFeatureGate())
	if err != nil {
		return fmt.Errorf("set up the service controller: %w", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait above
	wg.Go(func() { s.fleet.Follow(ctx, s.backend.watch) })
	wg.Go(func() { s.reloadAt(ctx, hangups) })

	s.log.Info("waiting for the API", "kubeconfig", s.opts.kubeconfig)
	services := core.Services().Lister()
	factory.Start(ctx.Done())
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			s.log.Info("stopped before the API answered", "kind", kind.String())
			return nil
		}
	}
	all, err := services.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list the Services: %w", err)
	}
	if err := s.fleet.Sweep(ctx, wanted(all)); err != nil {
		return fmt.Errorf("look after the load balancers that run: %w", err)
	}
	s.log.Info("serving", "cluster", s.opts.cluster, "instances", s.opts.instances, "on", s.backend.on, "ranges", s.opts.ranges, "profile", s.opts.profile.String())
	controller.Run(ctx, workers, controllers.NewControllerManagerMetrics("plumb-lb"))
	return nil
}

func (s *server) reloadAt(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			if err := s.fleet.Reload(ctx); err != nil {
				s.log.Error("not all load balancers were reloaded", "error", err)
			}
		}
	}
}

// wanted are the Services that the service controller still has something to
// do for: to serve them or to clean up after them (the finalizer).
func wanted(all []*v1.Service) []*v1.Service {
	var out []*v1.Service
	for _, svc := range all {
		wants := svc.Spec.Type == v1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
		if wants || helpers.HasLBFinalizer(svc) {
			out = append(out, svc)
		}
	}
	return out
}

// clearStatus takes the address off a Service that is refused.
func (s *server) clearStatus(_ context.Context, svc *v1.Service) error {
	cleared := svc.DeepCopy()
	cleared.Status.LoadBalancer = v1.LoadBalancerStatus{}
	if _, err := helpers.PatchService(s.kube.CoreV1(), svc, cleared); err != nil {
		return fmt.Errorf("clear the status of %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	return nil
}

func (s *server) close() error {
	return errors.Join(s.backend.close(), s.recorder.Close(), s.lock.Close())
}
