package cell

import (
	"slices"
	"testing"
)

// No value is of two dimensions: a value alone says which it is of.
func TestValuesAreOfOneDimension(t *testing.T) {
	n := 0
	for _, list := range values {
		n += len(list)
	}
	if len(of) != n {
		t.Errorf("%d values, of which %d differ", n, len(of))
	}
}

// A space has the cells of its values, but those that cannot be and those that a document excepts.
func TestSpace(t *testing.T) {
	one := Cell{TCP, LoadBalancer, Local, NoneHere, Outside, IPv4, Pod}
	with := func(v Value) Cell {
		c := one
		c[of[v]] = v
		return c
	}
	external := Space{Of: []Value{LoadBalancer, ExternalIP, Local}, Except: []Exception{{Of: []Value{ExternalIP, UDP}}}}
	udp := with(UDP)
	udp[Frontend] = ExternalIP
	for name, tc := range map[string]struct {
		of   Space
		c    Cell
		want bool
	}{
		"of its values":                {external, one, true},
		"of another frontend":          {external, with(NodePortElsewhere), false},
		"of another policy":            {external, with(Cluster), false},
		"excepted":                     {external, udp, false},
		"half excepted":                {external, with(ExternalIP), true},
		"of no promise about packets":  {Space{}, one, false},
		"from outside to a ClusterIP":  {Space{Of: []Value{TCP}}, with(ClusterIP), false},
		"endpoints elsewhere, Cluster": {Space{Of: []Value{TCP}}, with(Cluster), false},
		"none, in the host network":    {Space{Of: []Value{TCP}}, Cell{TCP, LoadBalancer, Local, None, Outside, IPv4, HostNetwork}, false},
	} {
		if got := tc.of.Has(tc.c); got != tc.want {
			t.Errorf("%s: %s: %v, want %v", name, tc.c, got, tc.want)
		}
	}
	if n := len(external.Cells()); n == 0 || slices.ContainsFunc(external.Cells(), func(c Cell) bool { return !external.Has(c) }) {
		t.Errorf("%d cells", n)
	}
}

// A pair is asked by one cell that has both values and is of the space.
func TestCover(t *testing.T) {
	s := Space{Of: []Value{TCP, UDP, ClusterIP, Cluster, Ready, PodHere, IPv4, Pod, HostNetwork}}
	asked := map[Cell]bool{
		{TCP, ClusterIP, Cluster, Ready, PodHere, IPv4, Pod}:         true,
		{UDP, ClusterIP, Cluster, Ready, PodHere, IPv4, HostNetwork}: true,
		{UDP, ClusterIP, Cluster, Ready, Node, IPv4, Pod}:            true, // of another space
	}
	got := s.Cover(asked)
	if got.Cells != 4 || got.Asked != 2 || !slices.Equal(got.Missing, []Pair{{TCP, HostNetwork}, {UDP, Pod}}) || got.Pairs != got.AskedPairs+2 {
		t.Errorf("%+v", got)
	}
	if all := s.Cover(map[Cell]bool{}); all.AskedPairs != 0 || len(all.Missing) != got.Pairs {
		t.Errorf("of nothing asked: %+v", all)
	}
}
