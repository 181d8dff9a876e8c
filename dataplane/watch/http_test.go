package watch_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/fixtures/api"
)

// These run the real client against a server that speaks HTTP and fails on
// demand: what becomes of the node's state when the way to it is bad.

// serve starts a server with two Services, a slice each, a Node and ServiceCIDRs.
func serve(t *testing.T) (*api.Server, kubernetes.Interface) {
	t.Helper()
	s, cfg := serveAs(t, api.Config{})
	return s, clientOf(t, cfg)
}

func serveAs(t *testing.T, how api.Config) (*api.Server, *rest.Config) {
	t.Helper()
	how.Logger = slog.New(slog.DiscardHandler)
	s := api.ForTest(t, how)
	must(t, s.Apply(node("here"), ranges("kubernetes", "10.96.0.0/16"), service("a", "10.96.0.1"), service("b", "10.96.0.2"),
		slice("a-1", "a"), slice("b-1", "b")))
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	must(t, err)
	cfg.ContentType, cfg.QPS = "application/vnd.kubernetes.protobuf", -1
	return s, cfg
}

func clientOf(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// upTo gathers changes until those named are among them, and returns all sorted:
// kinds have an order only each for itself.
func upTo(t *testing.T, got <-chan []objects.Change, named ...string) string {
	t.Helper()
	var all []string
	missing := func(what string) bool { return !slices.Contains(all, what) }
	for slices.ContainsFunc(named, missing) {
		all = append(all, strings.Split(describe(next(t, got)), ", ")...)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// After an outage in which the server has forgotten everything that changed, the
// difference reaches the sink, and nothing else: no object that is still there is
// ever reported gone, or told of again.
func TestRelistAfterOutage(t *testing.T) {
	s, client := serve(t)
	got := run(t, client, record.NewFakeRecorder(10))
	if first := next(t, got); len(first) != 6 {
		t.Fatalf("first delivery is %s, want six objects", describe(first))
	}
	s.SetOutage(api.Refused)
	must(t, s.Delete(api.Services, "ns/b"))
	must(t, s.Delete(api.EndpointSlices, "ns/b-1"))
	must(t, s.Apply(slice("a-1", "c"), service("c", "10.96.0.3"))) // the slice moves
	s.Compact()
	s.SetOutage(api.None)
	must(t, s.Apply(ranges("later", "10.97.0.0/16"))) // after what a relist has to say
	want := []string{"gone 1 b of ", "gone 2 a-1 of a", "gone 2 b-1 of b", "ranges later [10.97.0.0/16]", "service c", "slice a-1 of c"}
	if text := upTo(t, got, want...); text != strings.Join(want, ", ") {
		t.Errorf("after the outage:\n%s, want\n%s", text, strings.Join(want, ", "))
	}
}

// A list that breaks off in the middle, first or later, is no list: nothing is
// handed on, and nothing is taken away (Cilium issue 48050 is what happens
// otherwise).
func TestHalfAList(t *testing.T) {
	s, client := serve(t)
	s.CutLists(2, api.EndpointSlices, api.Services)
	got := run(t, client, record.NewFakeRecorder(10))
	if first := next(t, got); len(first) != 6 {
		t.Fatalf("first delivery is %s, want six objects", describe(first))
	}
	s.CutLists(2, api.EndpointSlices, api.Services)
	s.Compact(api.EndpointSlices, api.Services)
	s.CutWatches(api.EndpointSlices, api.Services)
	must(t, s.Apply(slice("a-2", "a"), service("z", "10.96.0.9")))
	if text, want := upTo(t, got, "service z", "slice a-2 of a"), "service z, slice a-2 of a"; text != want {
		t.Errorf("after broken lists: %s, want %s", text, want)
	}
}

// A Service of many slices may lose and win them one at a time, and out of order
// with the Service itself.
func TestSlicesOneAtATime(t *testing.T) {
	s, client := serve(t)
	got := run(t, client, record.NewFakeRecorder(10))
	next(t, got)
	s.Hold(api.Services)
	must(t, s.Apply(service("d", "10.96.0.4"), slice("d-1", "d"), slice("d-2", "d")))
	must(t, s.Delete(api.EndpointSlices, "ns/d-1"))
	must(t, s.Apply(slice("d-3", "d")))
	if text, want := upTo(t, got, "slice d-3 of d"), "gone 2 d-1 of d, slice d-1 of d, slice d-2 of d, slice d-3 of d"; text != want {
		t.Errorf("while the Services lag: %s, want %s", text, want)
	}
	s.Release(api.Services)
	if text := upTo(t, got, "service d"); text != "service d" {
		t.Errorf("then: %s, want the Service", text)
	}
	// The label is what the watch selects by: it ends what it was for us.
	headless := slice("d-2", "d")
	headless.Labels[objects.LabelHeadless] = ""
	orphan := slice("d-3", "")
	delete(orphan.Labels, discoveryv1.LabelServiceName)
	must(t, s.Apply(headless, orphan))
	if text, want := upTo(t, got, "gone 2 d-2 of d", "gone 2 d-3 of d"), "gone 2 d-2 of d, gone 2 d-3 of d"; text != want {
		t.Errorf("slices that are nobody's: %s, want %s", text, want)
	}
}
