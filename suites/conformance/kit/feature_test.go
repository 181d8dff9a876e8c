package kit

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Where the cluster refuses external IPs no part of a behaviour is about them, whatever the dataplane has; that
// they are asked for makes nothing, and what else goes wrong then is an error.
func TestAsksWhetherExternalIPsAreDenied(t *testing.T) {
	for name, c := range map[string]struct {
		says   error
		denied bool
		fails  bool
	}{
		"allowed": {},
		"denied": {says: apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "external-ips",
			errors.New("Use of external IPs is denied by admission control.")), denied: true},
		"denied by a webhook": {says: apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "external-ips", errors.New("admission webhook denied the request")), denied: true},
		"all are refused":     {says: errors.New("exceeded quota"), fails: true},
	} {
		client := fake.NewClientset()
		client.PrependReactor("create", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if dry := a.(clienttesting.CreateActionImpl).CreateOptions.DryRun; len(dry) != 1 || dry[0] != "All" {
				t.Errorf("%s: it is made: %v", name, dry)
			}
			if o := a.(clienttesting.CreateActionImpl).Object.(*corev1.Service); len(o.Spec.ExternalIPs) == 0 && !c.fails {
				return true, nil, nil
			}
			return true, nil, c.says
		})
		e := &Env{client: client, namespace: "n"}
		if err := e.findDenied(t.Context()); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if has := (&Spec{env: e}).Has(FeatureExternalIPs); has == c.denied {
			t.Errorf("%s: has external IPs: %t", name, has)
		}
		if !c.denied {
			continue
		}
		about := Behaviour{Features: []Feature{FeatureExternalIPs}, Run: func(*Spec) { t.Errorf("%s: what is about external IPs is asked", name) }}
		if r := e.run(t.Context(), about, corev1.IPv4Protocol); r.Result != ResultSkip || !strings.HasPrefix(r.Reason, "the cluster lacks leave to set externalIPs (") || !strings.Contains(r.Reason, c.says.Error()) {
			t.Errorf("%s: %s: %s", name, r.Result, r.Reason)
		}
	}
	e := &Env{cfg: Config{Features: map[Feature]string{FeatureExternalIPs: "none"}}}
	if (&Spec{env: e}).Has(FeatureExternalIPs) || !(&Spec{env: e}).Has(FeatureSCTP) {
		t.Error("what is declared does not count")
	}
}
