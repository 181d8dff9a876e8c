package teeth

import (
	_ "embed"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
)

//go:embed teeth.yaml
var teethFile []byte

// mutation is one way to break a dataplane, and behaviours that must fail, each of them.
type mutation struct {
	Breaks   string   `json:"breaks"`
	IPFamily string   `json:"ipFamily"` // of the lab that shows it: dual, or empty, any
	Caught   []string `json:"caught"`
}

const (
	// sound is the mutation that breaks nothing: with it nothing may fail.
	sound = "none"
	// alive is a behaviour that holds as long as anything is forwarded. Where it is not declared it is
	// asked beside those that are, and must hold: of a dataplane that does nothing at all every
	// declaration would be true.
	alive = "clusterip-from-host-of-other-node"
)

func declaredMutations() (map[string]mutation, error) {
	var all map[string]mutation
	if err := yaml.UnmarshalStrict(teethFile, &all); err != nil {
		return nil, fmt.Errorf("read teeth.yaml: %w", err)
	}
	return all, nil
}

// shownIn tells whether the mutation is judged in a lab of a family: in one of both those
// that no other can show.
func (m mutation) shownIn(family string) bool {
	return m.IPFamily == family || m.IPFamily == "" && family != "dual"
}

// asked are the behaviours that judge some mutations: those that they declare, and alive.
func asked(of ...mutation) []kit.Behaviour {
	ids := map[string]bool{alive: true}
	for _, m := range of {
		for _, id := range m.Caught {
			ids[id] = true
		}
	}
	return slices.DeleteFunc(behaviours.All(), func(b kit.Behaviour) bool { return !ids[b.ID] })
}

// check says in what a declaration cannot be right, given what each behaviour needs.
func (m mutation) check(needs map[string][]kit.Need) (wrong []string) {
	if m.Breaks == "" || len(m.Caught) == 0 || !slices.IsSorted(m.Caught) {
		wrong = append(wrong, "it must say what it breaks, and what catches it, in order")
	}
	if m.IPFamily != "" && m.IPFamily != "dual" {
		wrong = append(wrong, fmt.Sprintf("ipFamily %q: must be dual, or left out", m.IPFamily))
	}
	for _, id := range m.Caught {
		of, ok := needs[id]
		switch {
		case !ok:
			wrong = append(wrong, "there is no behaviour "+id)
		case slices.Contains(of, kit.NeedDual) && m.IPFamily != "dual":
			wrong = append(wrong, id+" needs both families: it must say ipFamily: dual")
		}
	}
	return wrong
}
