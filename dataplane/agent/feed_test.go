package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

func TestFeed(t *testing.T) {
	var got [][]string
	f := feed{sink: func(cs []objects.Change) {
		names := []string{}
		for _, c := range cs {
			names = append(names, c.ServiceCIDR.Name)
		}
		got = append(got, names)
	}}
	named := func(names ...string) (out []objects.Change) {
		for _, n := range names {
			out = append(out, objects.Change{ServiceCIDR: &objects.ServiceCIDR{Name: n}})
		}
		return out
	}
	a, b := f.source(), f.source()
	a(named("a1", "a2"))
	a(named("a3"))
	if got != nil {
		t.Errorf("%v was handed on before the second source spoke", got)
	}
	b(nil) // knows of nothing, which is something
	b(named("b1"))
	a(named("a4"))
	if diff := cmp.Diff([][]string{{"a1", "a2", "a3"}, {"b1"}, {"a4"}}, got); diff != "" {
		t.Errorf("handed on (-want +got):\n%s", diff)
	}
}
