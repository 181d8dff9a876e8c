package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// String is the plan as text, one frontend a line with its routes below: the
// form golden files and dumps show.
func (p *Plan) String() string {
	var b strings.Builder
	pods := fmt.Sprint(p.Node.LocalPods)
	if p.Node.LocalLink != "" {
		pods = "by " + string(p.Node.LocalLink)
	}
	fmt.Fprintf(&b, "node addrs=%v pods=%s services=%v", p.Node.Addrs, pods, p.Node.ServiceCIDRs)
	if p.Node.Sockets {
		b.WriteString(" sockets")
	}
	b.WriteString("\n")
	for _, name := range slices.SortedFunc(maps.Keys(p.Services), objects.Name.Compare) {
		s := p.Services[name]
		fmt.Fprintf(&b, "service %s\n", name)
		for _, f := range s.Frontends {
			f.write(&b)
		}
		if hc := s.HealthCheck; hc != nil {
			fmt.Fprintf(&b, "  healthcheck %d ip=%d ip6=%d\n", hc.Port, hc.IPv4, hc.IPv6)
		}
		for _, why := range s.Warnings {
			fmt.Fprintf(&b, "  warning %s\n", why)
		}
	}
	return b.String()
}

func (f Frontend) write(b *strings.Builder) {
	if f.Key.IsWildcard() {
		fmt.Fprintf(b, "  %s %s\n", f.Key, f.Outside)
		return
	}
	fmt.Fprintf(b, "  %s %s\n", f.Kind, f.Key)
	if f.Restricted {
		fmt.Fprintf(b, "    only from %v\n", f.Sources)
	}
	if f.Affinity > 0 {
		fmt.Fprintf(b, "    affinity %s of %s\n", f.Affinity, f.Group)
	}
	if f.Inside != nil {
		fmt.Fprintf(b, "    outside %s\n    inside  %s\n", f.Outside, f.Inside)
	} else {
		fmt.Fprintf(b, "    %s\n", f.Outside)
	}
	for _, e := range f.Draining {
		fmt.Fprintf(b, "    draining %s\n", e)
	}
	for _, e := range f.Unready {
		fmt.Fprintf(b, "    unready %s\n", e)
	}
}

// String is the route on one line.
func (r Route) String() string {
	text := string(r.Action)
	for _, e := range Sorted(r.Endpoints) {
		text += " " + e.String()
	}
	return text + r.Masquerade.suffix()
}

// String is address and port, marked when local, on no node that is named, or the node itself.
func (e Endpoint) String() string {
	text := fmt.Sprintf("%s:%d", e.Addr, e.Port)
	if e.Addr.Is6() {
		text = fmt.Sprintf("[%s]:%d", e.Addr, e.Port)
	}
	switch {
	case e.Host:
		text += "(host)"
	case e.Local:
		text += "(local)"
	case e.Unplaced:
		text += "(unplaced)"
	}
	return text
}

func (m Masquerade) suffix() string {
	switch m {
	case MasqOffCluster:
		return " masquerade=off-cluster"
	case MasqAlways:
		return " masquerade=always"
	case MasqNode:
		return " masquerade=node"
	}
	return ""
}
