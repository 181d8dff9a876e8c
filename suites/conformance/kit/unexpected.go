package kit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// unexpected fails if a server answered that no state of the Service so far has allowed to:
// that is not lateness, and is never excused. One that a state before did is late, as long as
// that may be.
func (s *Spec) unexpected(c Client, t Target, w Want, res *remote.Results) {
	allowed, known := s.everAllowed(t)
	if !known {
		return
	}
	for _, r := range res.Attempts {
		named := func(o Client) bool { return o.Name == r.Name }
		if r.Class == remote.OK && !allowed[r.Dst.Addr().Unmap().String()] && !slices.ContainsFunc(w.servers, named) {
			s.Fail("%s to %s: want %s, but %s answered (%s), which was an endpoint to use in no state of the Service so far", c.at(), t, w.text, r.Name, r)
		}
	}
}

// everAllowed are the addresses of endpoints that were ready, or ended and served, in some state
// so far of the Services that a target is or was an address of. It is not known of what is
// none's.
func (s *Spec) everAllowed(t Target) (allowed map[string]bool, known bool) {
	allowed = map[string]bool{}
	for _, v := range s.services {
		if !v.met[t] {
			continue
		}
		known = true
		for a := range v.ever {
			allowed[a] = true
		}
	}
	return allowed, known
}

// noteUsable remembers which endpoints a Service may use from now on.
func (v *Service) noteUsable(f corev1.IPFamily, eps []Endpoint) {
	if v.ever == nil {
		v.ever = map[string]bool{}
	}
	for _, e := range eps {
		var n states
		if n.add(e); n.ready+n.draining > 0 {
			v.ever[e.at(f).String()] = true
		}
	}
}
