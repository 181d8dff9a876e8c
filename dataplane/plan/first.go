package plan

import "github.com/plumbline/plumbline/dataplane/objects"

// First are the frontends that the node's programs and pods want most where not all can be served
// at once: those of the API (default/kubernetes) and of kube-system, such as cluster DNS, without
// which the others are not found.
func First(p *Plan) map[Key]bool {
	out := map[Key]bool{}
	for name, s := range p.Services {
		if name.Namespace != "kube-system" && name != (objects.Name{Namespace: "default", Name: "kubernetes"}) {
			continue
		}
		for _, f := range s.Frontends {
			out[f.Key] = true
		}
	}
	return out
}
