package plan

import (
	"slices"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// A health check's port is opened or closed with the Service that has it; one that passes to
// another Service is neither.
func TestDiffOfHealthPorts(t *testing.T) {
	with := func(ports map[string]uint16) *Plan {
		p := &Plan{Services: map[objects.Name]Service{{Name: "without"}: {}}}
		for name, port := range ports {
			p.Services[objects.Name{Name: name}] = Service{HealthCheck: &HealthCheck{Port: port}}
		}
		return p
	}
	for _, c := range []struct {
		name           string
		old, new       *Plan
		opened, closed []uint16
	}{
		{"nothing", with(nil), with(nil), nil, nil},
		{"a start", nil, with(map[string]uint16{"a": 3, "b": 1}), []uint16{1, 3}, nil},
		{"the same", with(map[string]uint16{"a": 3}), with(map[string]uint16{"a": 3}), nil, nil},
		{"another port", with(map[string]uint16{"a": 3, "b": 5}), with(map[string]uint16{"a": 4, "b": 5}), []uint16{4}, []uint16{3}},
		{"another Service", with(map[string]uint16{"a": 3}), with(map[string]uint16{"b": 3}), nil, nil},
		{"one of two goes", with(map[string]uint16{"a": 3, "b": 3}), with(map[string]uint16{"b": 3}), nil, []uint16{3}},
		{"all go", with(map[string]uint16{"a": 3, "b": 1}), with(nil), nil, []uint16{1, 3}},
	} {
		if d := Diff(c.old, c.new); !slices.Equal(d.Opened, c.opened) || !slices.Equal(d.Closed, c.closed) {
			t.Errorf("%s: opened %v, closed %v; want %v, %v", c.name, d.Opened, d.Closed, c.opened, c.closed)
		}
	}
}
