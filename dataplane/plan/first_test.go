package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// What is wanted most is the API's and what is in kube-system, whatever else has their names.
func TestFirst(t *testing.T) {
	p, want := &Plan{Services: map[objects.Name]Service{}}, []uint16(nil)
	for i, n := range []struct {
		name  objects.Name
		first bool
	}{
		{objects.Name{Namespace: "default", Name: "kubernetes"}, true}, {objects.Name{Namespace: "kube-system", Name: "kube-dns"}, true},
		{objects.Name{Namespace: "default", Name: "kube-dns"}, false}, {objects.Name{Namespace: "a", Name: "kubernetes"}, false},
	} {
		p.Services[n.name] = Service{Frontends: []Frontend{{Key: Key{Port: uint16(i)}}}}
		if n.first {
			want = append(want, uint16(i))
		}
	}
	var got []uint16
	for k := range First(p) {
		got = append(got, k.Port)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}
