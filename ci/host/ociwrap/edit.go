//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// limits is what a process may grant to a container it starts.
type limits struct {
	bounding uint64            // capabilities(7), one bit each
	oomAdj   int               // the lowest oom_score_adj it may set
	hard     map[string]uint64 // resource limits: the highest hard limit it may set
}

type object = map[string]json.RawMessage

// edit brings the process object at field (nil: the whole document) down to the
// limits. Everything it does not know stays as it is. The second result tells
// whether anything had to change.
func edit(doc []byte, field []string, l limits) ([]byte, bool, error) {
	var o object
	if err := json.Unmarshal(doc, &o); err != nil {
		return nil, false, err
	}
	if len(field) == 0 {
		changed, err := l.lower(o)
		if err != nil || !changed {
			return doc, false, err
		}
		out, err := json.Marshal(o)
		return out, true, err
	}
	inner, ok := o[field[0]]
	if !ok {
		return doc, false, nil
	}
	edited, changed, err := edit(inner, field[1:], l)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", field[0], err)
	}
	if !changed {
		return doc, false, nil
	}
	o[field[0]] = edited
	out, err := json.Marshal(o)
	return out, true, err
}

// lower edits an OCI process object in place.
func (l limits) lower(process object) (changed bool, err error) {
	for key, f := range map[string]func(json.RawMessage) (any, bool, error){
		"capabilities": l.capabilities,
		"oomScoreAdj":  l.oomScoreAdj,
		"rlimits":      l.rlimits,
	} {
		old, ok := process[key]
		if !ok || string(old) == "null" {
			continue
		}
		value, different, err := f(old)
		if err != nil {
			return false, fmt.Errorf("%s: %w", key, err)
		}
		if !different {
			continue
		}
		changed = true
		if process[key], err = json.Marshal(value); err != nil {
			return false, fmt.Errorf("%s: %w", key, err)
		}
	}
	return changed, nil
}

func (l limits) capabilities(old json.RawMessage) (any, bool, error) {
	var sets map[string][]string // bounding, effective, inheritable, permitted, ambient
	if err := json.Unmarshal(old, &sets); err != nil {
		return nil, false, err
	}
	different := false
	for name, set := range sets {
		kept := make([]string, 0, len(set))
		for _, c := range append(set, newer(set)...) {
			if l.has(c) {
				kept = append(kept, c)
			}
		}
		different = different || !slices.Equal(kept, set)
		sets[name] = kept
	}
	return sets, different, nil
}

// newer are the capabilities that a set lacks only because Docker before 23.0 does not know them: it
// has all those before, as of a privileged container, which is to have every one.
func newer(set []string) (out []string) {
	for name, bit := range capabilityBit {
		switch has := slices.Contains(set, name); {
		case bit > unix.CAP_AUDIT_READ && !has:
			out = append(out, name)
		case has != (bit <= unix.CAP_AUDIT_READ): // one of these was left out, or Docker knows those
			return nil
		}
	}
	slices.Sort(out)
	return out
}

// has is true for names it does not know as well: runc decides on those.
func (l limits) has(name string) bool {
	bit, known := capabilityBit[name]
	return !known || l.bounding&(1<<bit) != 0
}

// Lowering oom_score_adj below the least value ever set takes CAP_SYS_RESOURCE (proc(5)).
func (l limits) oomScoreAdj(old json.RawMessage) (any, bool, error) {
	var adj int
	if err := json.Unmarshal(old, &adj); err != nil {
		return nil, false, err
	}
	if l.has(sysResource) || adj >= l.oomAdj {
		return nil, false, nil
	}
	return l.oomAdj, true, nil
}

type rlimit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

// Raising a hard limit takes CAP_SYS_RESOURCE (setrlimit(2)).
func (l limits) rlimits(old json.RawMessage) (any, bool, error) {
	var list []rlimit
	if err := json.Unmarshal(old, &list); err != nil {
		return nil, false, err
	}
	different := false
	for i, r := range list {
		highest, known := l.hard[r.Type]
		if l.has(sysResource) || !known || r.Hard <= highest {
			continue
		}
		list[i].Hard, list[i].Soft = highest, min(r.Soft, highest)
		different = true
	}
	return list, different, nil
}
