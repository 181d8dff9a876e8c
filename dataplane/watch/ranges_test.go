package watch_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

func ranges(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

// ServiceCIDRs are in the first delivery, and each change of them comes at once.
func TestServiceCIDRs(t *testing.T) {
	client := fake.NewClientset(node("here"), ranges("kubernetes", "10.96.0.0/16"))
	got := run(t, client, record.NewFakeRecorder(10))
	if first := describe(next(t, got)); !strings.Contains(first, "ranges kubernetes [10.96.0.0/16]") {
		t.Errorf("first delivery is %s, want the ranges in it", first)
	}
	api, ctx := client.NetworkingV1().ServiceCIDRs(), t.Context()
	want := func(text string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if c := describe(next(t, got)); c != text {
			t.Errorf("got %s, want %s", c, text)
		}
	}
	_, err := api.Create(ctx, ranges("more", "10.97.0.0/16", "fd00::/112"), metav1.CreateOptions{})
	want("ranges more [10.97.0.0/16 fd00::/112]", err)
	want("gone 4 more of ", api.Delete(ctx, "more", metav1.DeleteOptions{}))
}

// A cluster without ServiceCIDRs, or one that does not show them, is no reason to
// wait; a server that does not answer is.
func TestWithoutServiceCIDRs(t *testing.T) {
	cidrs := schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
	for name, c := range map[string]struct {
		err      error
		attempts int // that the error is given
		want     int // objects in the first delivery
	}{
		"not served": {apierrors.NewNotFound(cidrs, ""), 100, 2},
		"forbidden":  {apierrors.NewForbidden(cidrs, "", fmt.Errorf("no")), 100, 2},
		"no answer":  {apierrors.NewServiceUnavailable("starting"), 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(node("here"), service("a", "10.96.0.1"), ranges("kubernetes", "10.96.0.0/16"))
			asked := 0
			client.PrependReactor("list", "servicecidrs", func(k8stesting.Action) (bool, runtime.Object, error) {
				asked++
				return asked <= c.attempts, nil, c.err
			})
			start := time.Now()
			if first := next(t, run(t, client, record.NewFakeRecorder(10))); len(first) != c.want {
				t.Errorf("first delivery is %s, want %d objects", describe(first), c.want)
			}
			if took := time.Since(start); c.attempts > 1 && (asked != 1 || took > patience/2) {
				t.Errorf("asked %d times, started after %s; want one question", asked, took)
			}
		})
	}
}

// ServiceCIDRs that come to be seen later are followed from then on.
func TestServiceCIDRsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(node("here"), ranges("kubernetes", "10.96.0.0/16"))
		var seen atomic.Bool
		client.PrependReactor("list", "servicecidrs", func(k8stesting.Action) (bool, runtime.Object, error) {
			return !seen.Load(), nil, apierrors.NewNotFound(schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}, "")
		})
		got := run(t, client, record.NewFakeRecorder(10))
		if first := describe(next(t, got)); first != "node here leaving=false" {
			t.Errorf("first delivery is %s, want the Node alone", first)
		}
		time.Sleep(time.Hour)
		seen.Store(true)
		time.Sleep(10 * time.Minute)
		if text := describe(next(t, got)); text != "ranges kubernetes [10.96.0.0/16]" {
			t.Errorf("got %s, want the ranges", text)
		}
		_, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), ranges("more", "10.97.0.0/16"), metav1.CreateOptions{})
		if text := describe(next(t, got)); err != nil || text != "ranges more [10.97.0.0/16]" {
			t.Errorf("got %s, %v; want more ranges", text, err)
		}
	})
}
