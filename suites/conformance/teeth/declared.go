package teeth

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/row"
)

//go:embed teeth.yaml
var teethFile []byte

// mutation is one way to break a dataplane, and behaviours that must fail, each of them.
type mutation struct {
	Breaks   string   `json:"breaks"`
	IPFamily string   `json:"ipFamily"` // of the lab that shows it: dual, or empty, any
	Caught   []string `json:"caught"`

	// What is broken, one of our own: reference, if it is left out.
	Dataplane string `json:"dataplane"`
	// Holds is the behaviour that shows that something is forwarded still: alive, if it is left out.
	Holds string `json:"holds"`
}

const (
	// sound is the mutation that breaks nothing: with it nothing may fail.
	sound = "none"
	// alive is a behaviour that holds as long as anything is forwarded. Where it is not declared it is
	// asked beside those that are, and must hold: of a dataplane that does nothing at all every
	// declaration would be true.
	alive = "clusterip-from-host-of-other-node"
	// reference is the dataplane that most mutations are of.
	reference = "plumb-nftables"
)

func (m mutation) dataplane() string { return cmp.Or(m.Dataplane, reference) }

func (m mutation) holds() string { return cmp.Or(m.Holds, alive) }

// says is what is broken, of what.
func (m mutation) says() string {
	if m.dataplane() == reference {
		return m.Breaks
	}
	return m.Dataplane + ": " + m.Breaks
}

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

// asked are the behaviours that judge some mutations: those that they declare, and what is to hold.
func asked(of ...mutation) []kit.Behaviour {
	ids := map[string]bool{}
	for _, m := range of {
		ids[m.holds()] = true
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
	if r, err := row.Find(m.dataplane()); err != nil || !r.Own() || m.Dataplane == reference {
		wrong = append(wrong, fmt.Sprintf("dataplane %q: must be another one of our own, or left out", m.Dataplane))
	}
	if m.Holds == alive || slices.Contains(m.Caught, m.Holds) {
		wrong = append(wrong, fmt.Sprintf("holds %q: must be a behaviour that is not declared to catch it, and is not %s", m.Holds, alive))
	}
	for _, id := range append(slices.Clone(m.Caught), m.holds()) {
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
