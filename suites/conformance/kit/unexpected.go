package kit

import (
	"slices"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/cell"
)

// unexpected fails if a server answered that no state of the Service so far has allowed to:
// that is not lateness, and is never excused. One that a state before did is late, as long as
// that may be.
func (s *Spec) unexpected(c Client, t Target, w Want, res *remote.Results) {
	allowed, known := s.everAllowed(c, t)
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
// so far of the Services that a target is or was an address of, and that their policy let the client
// have there. It is not known of what is none's.
func (s *Spec) everAllowed(c Client, t Target) (allowed map[string]bool, known bool) {
	allowed = map[string]bool{}
	for _, v := range s.services {
		front, met := v.met[t]
		if !met {
			continue
		}
		known = true
		at := s.arrives(c, t, front)
		for _, was := range v.stood {
			held := at != nil && was.local[front == cell.ClusterIP] && (front == cell.ClusterIP || s.source(c) == cell.Outside)
			for addr, node := range was.usable {
				allowed[addr] = allowed[addr] || !held || node == at.Name
			}
		}
	}
	return allowed, known
}

// stood is a state in which a Service was: whether its policy is Local, the internal one (true) and
// the external one, and the nodes of the endpoints that it might use, by their addresses.
type stood struct {
	local  map[bool]bool
	usable map[string]string
}

// stands remembers the state in which a Service is from now on.
func (v *Service) stands() {
	now := stood{map[bool]bool{true: v.policy(cell.ClusterIP) == cell.Local, false: v.policy(cell.NodePort) == cell.Local}, map[string]string{}}
	for _, w := range v.slices {
		for _, e := range w.endpoints {
			var n states
			if n.add(e); n.ready+n.draining > 0 {
				for _, a := range e.addrs(w.family) {
					now.usable[a.String()] = e.node
				}
			}
		}
	}
	v.stood = append(v.stood, now)
}
