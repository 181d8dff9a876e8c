package haproxy

import (
	"testing"

	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// A node's number is its own, whoever is beside it; two whose names have one hash
// differ, as "costarring" and "liquid" (32-bit FNV-1a).
func TestServerIDs(t *testing.T) {
	ids := func(nodes ...string) map[string]int {
		var l lbplan.Listener
		for _, n := range nodes {
			l.Servers = append(l.Servers, lbplan.Server{Node: n})
		}
		return serverIDs(l)
	}
	all := ids("b", "liquid", "a", "costarring")
	if all["liquid"] != all["costarring"]+1 || all["costarring"] <= 0 {
		t.Errorf("numbers %v: want the second of one hash to have the next", all)
	}
	if alone := ids("b"); alone["b"] != all["b"] || ids("a", "b")["b"] != all["b"] {
		t.Errorf("b is %d among others and %d alone", all["b"], alone["b"])
	}
}
