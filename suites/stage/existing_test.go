package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/existing"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/row"
)

// foreign is an existing cluster whose DaemonSets are ready at once.
type foreign struct {
	*Existing
	api      *api.Server
	manifest string                            // of a dataplane of the user's
	ran      map[string]bool                   // DaemonSets that were ready once
	says     func(*corev1.Pod) (string, int32) // what a pod that looks who proxies Services ends with; nil: nothing, 0
	halted   chan struct{}
	halt     context.CancelFunc
}

const userManifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: agent, namespace: kube-system}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
`

func openForeign(t *testing.T, objects ...api.Object) *foreign {
	t.Helper()
	f := &foreign{Existing: &Existing{}, api: api.ForTest(t, api.Config{}), ran: map[string]bool{}, halted: make(chan struct{})}
	check(t, f.api.Apply(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "cp", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}))
	port := int32(6443)
	check(t, f.api.Apply(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes", Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
		}))
	check(t, f.api.Apply(objects...))
	var err error
	f.opts.run, err = host.BeginRun(t.Context(), t.TempDir(), "existing")
	check(t, err)
	f.opts.Foreign = Foreign{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), EchoImage: "echo:1", ProxyImage: "proxy:1"}
	f.log = slog.New(slog.DiscardHandler)
	check(t, os.WriteFile(f.opts.Foreign.Kubeconfig, f.api.Kubeconfig(), 0o600))
	check(t, f.openCluster(t.Context()))
	f.opts.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	f.halt = cancel
	go f.control(ctx)
	t.Cleanup(f.stop)
	wg := &sync.WaitGroup{}
	wg.Go(func() { f.kubelet(t.Context()) })
	t.Cleanup(wg.Wait)
	return f
}

func (f *foreign) stop() { f.halt(); <-f.halted }

// control reports every DaemonSet as ready.
func (f *foreign) control(ctx context.Context) {
	defer close(f.halted)
	sets := f.client.AppsV1().DaemonSets("")
	w, err := sets.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return // what waits for it says so
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		set, ok := e.Object.(*appsv1.DaemonSet)
		if !ok || set.Status.NumberReady == 1 {
			continue
		}
		f.ran[set.Name] = true
		set.Status = appsv1.DaemonSetStatus{ObservedGeneration: set.Generation, DesiredNumberScheduled: 1, NumberReady: 1, UpdatedNumberScheduled: 1}
		_, _ = f.client.AppsV1().DaemonSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{}) // it may be gone
	}
}

// kubelet ends every pod that looks who proxies Services.
func (f *foreign) kubelet(ctx context.Context) {
	w, err := f.client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{LabelSelector: "app=look"})
	if err != nil {
		return // what waits for it says so
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		p, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type != watch.Added {
			continue
		}
		end := &corev1.ContainerStateTerminated{}
		if f.says != nil {
			end.Message, end.ExitCode = f.says(p)
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: end}}}}
		_, _ = f.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}) // it may be gone
	}
}

// holds lists what the API has, beside nodes and what is in runs' own namespaces.
func (f *foreign) holds() []string {
	var out []string
	for _, k := range []api.Kind{api.Namespaces, api.DaemonSets, api.ConfigMaps, api.ServiceAccounts} {
		for _, o := range f.api.List(k) {
			if !strings.HasSuffix(o.GetNamespace(), "-system") || o.GetNamespace() == "kube-system" {
				out = append(out, string(k)+" "+o.GetNamespace()+"/"+o.GetName())
			}
		}
	}
	return out
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// install opens the cluster and installs userManifest.
func (f *foreign) install(ctx context.Context, t *testing.T) (remove func(context.Context) error) {
	t.Helper()
	check(t, f.openRun(t.Context()))
	_, remove, err := f.Install(ctx, f.row(t))
	check(t, err)
	if made := f.holds(); !slices.Contains(made, "daemonsets.apps kube-system/agent") {
		t.Fatalf("it was not installed: %v", made)
	}
	return remove
}

// A run that is interrupted does not remove its dataplane itself: the stage does. One
// that does is not done again.
func TestExistingCloseRemovesTheDataplane(t *testing.T) {
	for _, interrupted := range []bool{true, false} {
		f := openForeign(t, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "somebodys", Namespace: "kube-system"}})
		before := f.holds()
		ctx, cancel := context.WithCancel(t.Context())
		remove := f.install(ctx, t)
		cancel()
		if !interrupted {
			check(t, remove(t.Context()))
			f.api.SetOutage(api.Unavailable)
			check(t, remove(t.Context()))
			f.api.SetOutage(api.None)
		}
		check(t, f.Close(context.WithoutCancel(ctx)))
		if diff := cmp.Diff(before, f.holds()); diff != "" {
			t.Errorf("interrupted: %v: after the close (-want +got):\n%s", interrupted, diff)
		}
	}
}

// A dataplane whose agents are not ready is not installed, and not left.
func TestExistingAwaitsTheAgents(t *testing.T) {
	t.Parallel()
	f := openForeign(t)
	before := f.holds()
	check(t, f.install(t.Context(), t)(t.Context()))
	f.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, _, err := f.Install(ctx, row.Row{Dataplane: row.Manifest, Mode: f.manifest})
	if err == nil || !strings.Contains(err.Error(), "wait for DaemonSet kube-system/agent") {
		t.Errorf("it says: %v", err)
	}
	check(t, f.Close(t.Context()))
	if diff := cmp.Diff(before, f.holds()); diff != "" {
		t.Errorf("after the close (-want +got):\n%s", diff)
	}
}

// What this host's kernel can do says nothing about the cluster's nodes. It would be
// found by commands, which do not even start under a context that has ended.
func TestExistingDoesNotAskThisKernel(t *testing.T) {
	f := openForeign(t)
	f.install(t.Context(), t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := f.Install(ctx, row.Row{Dataplane: "plumb-nftables", Mode: "nftables"})
	if _, ok := errors.AsType[cluster.Unsupported](err); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("it says: %v", err)
	}
}

// What runs that were killed have left goes with the next one, the rules of our own
// dataplane by its clean-up: of those that this host knows to be dead at once. What others'
// runs have, and what looks like a run's, stays.
func TestExistingOpenRemovesLeftovers(t *testing.T) {
	of := func(run cluster.Run, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{cluster.Label: string(run)}}
	}
	const mine, theirs = cluster.Run("existing-bbbbb"), cluster.Run("existing-ccccc")
	f := openForeign(t,
		&appsv1.DaemonSet{ObjectMeta: of(mine, "plumb-proxy")}, &corev1.ServiceAccount{ObjectMeta: of(mine, "plumb-proxy")},
		&corev1.ConfigMap{ObjectMeta: of(theirs, "agent")}, &corev1.ConfigMap{ObjectMeta: of("", "somebodys")},
	)
	for id, object := range map[cluster.Run]cluster.Ref{
		mine:   {APIVersion: "v1", Kind: "ServiceAccount", Namespace: "kube-system", Name: "plumb-proxy"},
		theirs: {APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "agent"},
	} {
		r, err := f.cluster.Begin(t.Context(), id, func(error) {}) // the dead's will be
		check(t, err)
		err = r.Note(t.Context(), cluster.Left{Backend: "nftables", Image: "proxy:0", Echo: "echo:0", Objects: []cluster.Ref{
			object, {APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: "kube-system", Name: "plumb-proxy"},
		}})
		if err != nil && !errors.Is(err, cluster.ErrTaken) { // noted it is, beside the other too
			t.Fatal(err)
		}
	}
	f.opts.dead = []cluster.Run{mine}
	check(t, f.openRun(t.Context()))
	want := []string{
		"namespaces /" + theirs.Namespace("system"), "namespaces /" + f.Run().Namespace("system"),
		"configmaps kube-system/agent", "configmaps kube-system/somebodys",
	}
	slices.Sort(want)
	got := f.holds()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("when it is open (-want +got):\n%s", diff)
	}
	_, _, err := f.Install(t.Context(), row.Row{Dataplane: "plumb-nftables", Mode: "nftables"})
	if !errors.Is(err, cluster.ErrTaken) || !strings.Contains(err.Error(), string(theirs)) {
		t.Errorf("beside a run that has a dataplane there: %v", err)
	}
	check(t, f.Close(t.Context()))
	if f.stop(); !f.ran["plumbline-cleanup"] {
		t.Error("nobody removed the rules")
	}
}

// A run whose Lease somebody took away goes on no more: others may take it for dead.
func TestExistingEndsWithoutItsLease(t *testing.T) {
	t.Parallel() // until the Lease is to be renewed
	f := openForeign(t)
	lost := make(chan error, 1)
	f.opts.Lost = func(err error) { lost <- err }
	check(t, f.openRun(t.Context()))
	check(t, f.api.Delete(api.Leases, f.Run().Namespace("system")+"/run"))
	if err := <-lost; !errors.Is(err, existing.ErrLost) {
		t.Errorf("it ends with: %v", err)
	}
	check(t, f.Close(t.Context()))
}

// What is asked for by default is what the cluster has; that is found without making anything.
func TestEnterTakesTheClustersFamily(t *testing.T) {
	for name, tc := range map[string]struct {
		answer     string
		asked, got string
	}{
		"IPv6 alone":       {`{"spec":{"ipFamilies":["IPv6"]}}`, "dual", "ipv6"},
		"both":             {`{"spec":{"ipFamilies":["IPv4","IPv6"]}}`, "dual", "dual"},
		"both, one wanted": {`{"spec":{"ipFamilies":["IPv6","IPv4"]}}`, "ipv4", "ipv4"},
		"says nothing":     {`{"spec":{}}`, "dual", "dual"},
		"not told":         {"", "dual", "dual"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.URL.Path == "/version":
					fmt.Fprint(w, "{}")
				case tc.answer == "" || r.URL.Query().Get("dryRun") != "All":
					http.Error(w, "{}", http.StatusForbidden)
				default:
					fmt.Fprint(w, `{"apiVersion":"v1","kind":"Service",`+tc.answer[1:])
				}
			}))
			defer server.Close()
			file := filepath.Join(t.TempDir(), "kubeconfig")
			check(t, os.WriteFile(file, api.Kubeconfig(server.URL), 0o600))
			o := Options{Cluster: "existing", IPFamily: tc.asked, Profile: "seed", Foreign: Foreign{Kubeconfig: file, EchoImage: "echo:1", LB: "none"}}
			check(t, Enter(t.Context(), &o, slog.New(slog.DiscardHandler)))
			defer func() { check(t, o.Leave(t.Context())) }()
			if o.IPFamily != tc.got {
				t.Errorf("it takes %s, want %s", o.IPFamily, tc.got)
			}
		})
	}
}

func TestForeignCheck(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1") // that this is a pod says nothing about what is to be tested
	for name, tc := range map[string]struct {
		f    Foreign
		want string
	}{
		"no kubeconfig":        {Foreign{EchoImage: "e", LB: "none"}, "--cluster=existing needs --kubeconfig"},
		"ours in a pod":        {Foreign{EchoImage: "e", LB: "ours", Kubeconfig: "in-cluster"}, "--lb=ours needs a file"},
		"in a pod":             {Foreign{EchoImage: "e", LB: "none", Kubeconfig: "in-cluster"}, ""},
		"ours by a kubeconfig": {Foreign{EchoImage: "e", LB: "ours", Kubeconfig: "file"}, ""},
	} {
		err := tc.f.check(nil)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
