package kit

import (
	_ "embed"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/cell"
	"github.com/plumbline/plumbline/suites/report/render"
)

//go:embed byhand.sh.tmpl
var byHandText string // const: embedding needs a variable

// byHand writes the steps of a behaviour down as a shell script for kubectl, in which pods of a common
// image stand for the probes, on nodes that its user names.
type byHand struct {
	spec  *Spec
	nodes []string  // those that are needed, in the order of their need
	pods  []standIn // likewise
}

// standIn is a pod that stands for a probe. Name is also that of the variable with its address, with _ for -.
type standIn struct {
	Name  string
	Node  string // the variable with its node
	Host  bool   // it is in the node's own network
	probe string
}

// Variable is the shell's with its address.
func (p standIn) Variable() string { return strings.ReplaceAll(p.Name, "-", "_") }

// script is all of it.
func (s *Spec) script(says string, steps []step) (string, error) {
	t, err := template.New("by-hand").Parse(byHandText)
	if err != nil {
		return "", fmt.Errorf("read the script for a failure: %w", err)
	}
	h := &byHand{spec: s}
	var body []string
	for _, st := range steps {
		body = append(body, "\n# "+render.Line(fmt.Sprintf("%7.3f s  %s%s", st.at.Seconds(), st.did, render.Prefixed(": ", st.came)))+"\n"+h.step(st))
	}
	var out strings.Builder
	err = t.Execute(&out, map[string]any{
		"ID": s.id, "Family": string(s.Family), "Says": render.Line(says), "Nodes": h.nodes, "Pods": h.pods, "Body": strings.Join(body, "\n"),
		"Port": PodPort, "Other": OtherPort, "Host": HostPort, "HostOther": HostPort + 1, "Number": func(i int) int { return i + 1 },
		"Of": map[bool]string{true: "grep :", false: "grep -v :"}[s.Family == "IPv6"],
	})
	if err != nil {
		return "", fmt.Errorf("write the script for a failure: %w", err)
	}
	return out.String(), nil
}

// step is the commands of a step.
func (h *byHand) step(st step) string {
	switch {
	case st.dial != nil:
		return h.dial(st.dial)
	case st.hand != nil:
		return st.hand(h)
	}
	return "# (that has no command here: do the like of it in your cluster)"
}

// handTries bound how often a step dials.
const handTries = 10

// dial is the command that dials.
func (h *byHand) dial(d *dial) string {
	c, t := d.way.From, d.way.To
	at := h.target(t)
	client, ok := h.client(c)
	switch {
	case !ok && c.router == nil:
		return fmt.Sprintf("# (from %s, which no pod stands for, to %s)", c.at(), t)
	case !ok:
		flags := map[bool]string{true: " -u"}[t.network == remote.UDP]
		if c.source.IsValid() {
			flags += " -s " + c.source.String()
		}
		return fmt.Sprintf("# from the host beyond %s: nc%s -v -w 2 %s", h.shown(c.router), flags, at)
	}
	switch {
	case d.path != "":
		return fmt.Sprintf("get %s %s %s", client, at, render.Quoted(d.path))
	case t.network == remote.SCTP:
		return fmt.Sprintf("# (SCTP, from %s to %s: nc has none; ncat --sctp)", client, t)
	}
	words := fmt.Sprintf("%s %d %s %s", client, min(d.n, handTries), t.network, at)
	if d.source {
		return "dial " + words + "\nseen " + words
	}
	return "dial " + words
}

// client is the pod that stands for a client, or outside; false: nothing stands for it, as for a host beyond a node.
func (h *byHand) client(c Client) (string, bool) {
	if c.Name == Outside {
		return Outside, c.router == nil
	}
	p := h.of(c)
	return p.Name, p.Name != ""
}

// target is an address and a port of the user's cluster, as the shell finds them out.
func (h *byHand) target(t Target) string {
	addr, port := t.to.Addr().Unmap(), fmt.Sprint(t.to.Port())
	for _, v := range h.spec.services {
		front, met := v.met[t]
		if !met {
			continue
		}
		name := v.obj.Name
		switch front {
		case cell.ClusterIP:
			return fmt.Sprintf(`"$(cluster_ip %s)" %s`, name, port)
		case cell.NodePort:
			return fmt.Sprintf("%s \"$(node_port %s %s %s)\"", shellVariables(`"`+h.address(addr)+`"`), name, strings.ToUpper(string(t.network)), render.Quoted(h.portName(v, t)))
		}
	}
	for _, v := range h.spec.services {
		if int32(t.to.Port()) == v.obj.Spec.HealthCheckNodePort && h.spec.nodeAt(addr) != nil {
			return fmt.Sprintf("%s \"$(health_port %s)\"", shellVariables(`"`+h.address(addr)+`"`), v.obj.Name)
		}
	}
	return shellVariables(`"`+h.address(addr)+`"`) + " " + port
}

// portName is that of a node port, as the Service has it.
func (h *byHand) portName(v *Service, t Target) string {
	for _, p := range v.obj.Spec.Ports {
		if p.NodePort == int32(t.to.Port()) && strings.EqualFold(string(p.Protocol), string(t.network)) {
			return p.Name
		}
	}
	return ""
}

// of is the pod that stands for a probe; without a name: it is none of the cluster's.
func (h *byHand) of(c Client) standIn {
	for _, n := range h.spec.env.nodes {
		for kind, o := range map[string]*Pod{"a": n.A, "b": n.B, "host": {Client: n.Client}} {
			if o == nil || c.Name == "" || o.Name != c.Name {
				continue
			}
			if i := slices.IndexFunc(h.pods, func(p standIn) bool { return p.probe == c.Name }); i >= 0 {
				return h.pods[i]
			}
			at := h.node(n.Name)
			p := standIn{fmt.Sprintf("%s-%d", kind, at), fmt.Sprintf("N%d", at), kind == "host", c.Name}
			h.pods = append(h.pods, p)
			return p
		}
	}
	return standIn{}
}

// shown is a node as its variable and its name.
func (h *byHand) shown(n *Node) string { return fmt.Sprintf("$N%d (%s)", h.node(n.Name), n.Name) }

// node is the number of a node, from 1 on.
func (h *byHand) node(name string) int {
	if !slices.Contains(h.nodes, name) {
		h.nodes = append(h.nodes, name)
	}
	return slices.Index(h.nodes, name) + 1
}

// nodeName is a node in an object: a mark for shellVariables, or the name of one that is none of the cluster's.
func (h *byHand) nodeName(name string) string {
	if !slices.ContainsFunc(h.spec.env.nodes, func(n *Node) bool { return n.Name == name }) {
		return name
	}
	return fmt.Sprintf("__N%d__", h.node(name))
}

// address is one in an object: a mark for shellVariables if a probe has it.
func (h *byHand) address(a netip.Addr) string {
	for _, n := range h.spec.env.nodes {
		for _, c := range n.clients() {
			if own := c.Addr(familyOf(a.Unmap())); own == a.Unmap() {
				return "__" + h.of(c).Variable() + "__"
			}
		}
	}
	return a.String()
}

// clients are the node's probes.
func (n *Node) clients() []Client {
	out := []Client{n.Client}
	for _, p := range n.pods() {
		out = append(out, p.Client)
	}
	return out
}

var (
	aMark  = regexp.MustCompile(`__([A-Za-z][A-Za-z0-9_]*?)__`) // const
	escape = strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`")
)

// shellVariables has the shell's variables for marks.
func shellVariables(text string) string { return aMark.ReplaceAllString(text, "$${$1}") }

// apply applies an object, in which marks are variables of the shell.
func (h *byHand) apply(o runtime.Object) string {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return "# " + err.Error()
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	if m, err := meta.Accessor(o); err == nil {
		m.SetNamespace("")
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return "# " + err.Error()
	}
	delete(fields, "status") // which is written apart
	text, err := yaml.Marshal(fields)
	if err != nil {
		return "# " + err.Error()
	}
	return "kubectl apply -n \"$NS\" -f - <<END\n" + shellVariables(escape.Replace(string(text))) + "END"
}
