package kit

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// A run's own limit holds for what a behaviour allows, too, in proportion.
func TestLimit(t *testing.T) {
	for _, c := range []struct{ run, allowed, want time.Duration }{
		{0, 0, Limit},
		{0, time.Second, Limit},
		{0, 4 * Limit, 4 * Limit},
		{Limit / 3, 0, Limit / 3},
		{Limit / 3, 4 * Limit, 4 * Limit / 3},
	} {
		s := &Spec{env: &Env{cfg: Config{Limit: c.run}}}
		s.Allow(c.allowed)
		if got := s.limit(); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("limit of a run with %s where %s are allowed: %s, want %s", c.run, c.allowed, got, c.want)
		}
	}
}

func TestLastAnswer(t *testing.T) {
	since, at := time.Now(), record.Now()
	a, b := Client{Name: "a"}, Client{Name: "b"}
	res := &remote.Results{Attempts: []remote.Result{
		{At: at - int64(time.Hour), Name: "b"}, {At: at + int64(time.Second), Name: "a"}, {At: at + int64(2*time.Second), Name: "c"},
	}}
	got := LastAnswer(res, a, since)
	if off := (got - time.Second).Abs(); off > time.Since(since) { // it may come between two clocks that are read
		t.Errorf("last answer of a: after %s, want 1s", got)
	}
	if got := LastAnswer(res, b, since); got != 0 {
		t.Errorf("last answer of b: after %s, want 0", got)
	}
}

// Where the API admits no externalIPs, that is what the cluster lacks; other refusals
// are the harness's.
func TestExternalIPsDenied(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	for _, c := range []struct {
		err  error
		want conformance.Result
	}{
		{apierrors.NewForbidden(resource, "x-s1", errors.New("Use of external IPs is denied by admission control")), ResultSkip},
		{apierrors.NewForbidden(resource, "x-s1", errors.New("no leave")), ResultInconclusive},
		{errors.New("external IPs is denied"), ResultInconclusive},
	} {
		client := fake.NewClientset()
		client.PrependReactor("create", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
		s := &Spec{Family: corev1.IPv4Protocol, env: &Env{client: client}, ctx: t.Context(), id: "x"}
		out, ok := s.protected(func(s *Spec) { s.Service(ExternalIPs(netip.MustParseAddr("192.0.2.1"))) })
		if ok || out.result != c.want || !strings.Contains(out.reason+strings.Join(s.said, ""), c.err.Error()) || c.want == ResultSkip && out.reason != "the cluster lacks leave to set externalIPs" {
			t.Errorf("%v: %v %+v, want %s", c.err, ok, out, c.want)
		}
	}
}
