package kit

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// A change that the API finds invalid for the field that it is about is left out; what it finds wrong otherwise is a
// mistake.
func TestUpdateIfValid(t *testing.T) {
	for of, want := range map[string]string{
		"spec.LoadBalancerSourceRanges[0]": "left out", // as the API writes it
		"spec.ports":                       "inconclusive",
		"":                                 "changed",
	} {
		e, _ := served(t)
		client := fake.NewClientset(&corev1.Service{})
		client.PrependReactor("update", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if of == "" {
				return true, a.(clienttesting.UpdateAction).GetObject(), nil
			}
			errs := field.ErrorList{field.Invalid(field.NewPath(of), "192.0.2.1/24", "must not have bits set beyond the prefix length")}
			return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "x", errs)
		})
		e.client = client
		s := e.spec(t.Context(), Behaviour{ID: "x"}, corev1.IPv4Protocol, alone())
		got := "changed"
		if out, ok := s.protected(func(s *Spec) {
			v := &Service{spec: s, obj: &corev1.Service{}}
			if why := v.UpdateIfValid("spec.loadBalancerSourceRanges", SourceRanges("192.0.2.1/24")); why != "" {
				got = "left out"
				if !strings.Contains(why, "beyond the prefix") {
					t.Errorf("says %q", why)
				}
			}
		}); !ok {
			got = string(out.result)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", of, got, want)
		}
	}
}
