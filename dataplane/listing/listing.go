// Package listing says what a plan comes to, frontend by frontend, as `plumb-proxy show` does.
package listing

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Frontend is a line of `show services`, and the JSON the agent gives.
type Frontend struct {
	ID       int         `json:"id"` // the same as long as the agent runs
	Frontend string      `json:"frontend"`
	Type     string      `json:"type"`
	Service  string      `json:"service"`
	State    string      `json:"state"`
	Why      string      `json:"why,omitempty"` // it was refused, or is missing
	Backends []Placement `json:"backends"`
}

// Placement is a backend of a frontend.
type Placement struct {
	Address string `json:"address"`
	State   string `json:"state"`
	Local   bool   `json:"local,omitempty"`
	// For is whom it serves, if not everybody: outside, or inside, which is the
	// node and its own pods.
	For string `json:"for,omitempty"`
}

// The states of a frontend that the kernel did not take, and of one that it lacks though it
// had taken it. The others are active, drop and reject.
const (
	refused = "refused"
	missing = "missing"
)

// ErrMissing is why a frontend is not there that was applied.
var ErrMissing = errors.New("not in the kernel: it was applied, and is put back when that is seen")

// The states of backends. One whose frontend is refused or missing is so with it: what it
// takes, if anything, nobody knows.
const (
	active      = "active"      // takes new connections
	terminating = "terminating" // takes them though its pod is ending: there is no other
	draining    = "draining"    // keeps those it has
)

// Numbers gives every frontend an id that stays the same. The zero value is ready.
type Numbers struct {
	mu   sync.Mutex
	next int              // guarded by mu
	of   map[plan.Key]int // guarded by mu
}

// List is what a plan says of every frontend, sorted by key, and which of them the
// kernel did not take or lacks (ErrMissing), and why. Wildcards are left out: every ClusterIP has one.
func (n *Numbers) List(p *plan.Plan, not map[plan.Key]error) []Frontend {
	n.mu.Lock()
	defer n.mu.Unlock()
	owners := plan.Owners(p)
	maps.DeleteFunc(owners, func(k plan.Key, _ plan.Owner) bool { return k.IsWildcard() })
	if n.of == nil {
		n.of = map[plan.Key]int{}
	}
	maps.DeleteFunc(n.of, func(k plan.Key, _ int) bool { _, there := owners[k]; return !there })
	out := make([]Frontend, 0, len(owners))
	for _, k := range slices.SortedFunc(maps.Keys(owners), plan.Key.Compare) {
		if n.of[k] == 0 { // ids begin at 1
			n.next++
			n.of[k] = n.next
		}
		o := owners[k]
		f := Frontend{
			ID: n.of[k], Frontend: KeyText(k), Type: typeText(o.Frontend.Kind), Service: o.Service.String(),
			State: stateOf(*o.Frontend), Backends: placements(*o.Frontend),
		}
		if why := not[k]; why != nil {
			f.refuse(why)
		}
		out = append(out, f)
	}
	return out
}

func (f *Frontend) refuse(why error) {
	f.State, f.Why = refused, why.Error()
	if errors.Is(why, ErrMissing) {
		f.State = missing
	}
	for i := range f.Backends {
		f.Backends[i].State = f.State
	}
}

func stateOf(f plan.Frontend) string {
	state := func(r plan.Route) string {
		if r.Action == plan.Forward {
			return active
		}
		return string(r.Action)
	}
	out := state(f.Outside)
	if f.Inside != nil && f.Inside.Action != f.Outside.Action {
		out += ", inside " + state(*f.Inside)
	}
	return out
}

func placements(f plan.Frontend) []Placement {
	inside := f.Outside
	if f.Inside != nil {
		inside = *f.Inside
	}
	all := slices.Concat(f.Outside.Endpoints, inside.Endpoints, f.Draining)
	slices.SortFunc(all, plan.Endpoint.Compare)
	out := []Placement{}
	for _, e := range slices.Compact(all) {
		p := Placement{Address: netip.AddrPortFrom(e.Addr, e.Port).String(), Local: e.Local}
		in, outer := slices.Contains(inside.Endpoints, e), slices.Contains(f.Outside.Endpoints, e)
		switch {
		case !in && !outer:
			p.State = draining
		case outer && f.Outside.Terminating, in && inside.Terminating:
			p.State = terminating
		default:
			p.State = active
		}
		switch {
		case in && !outer:
			p.For = "inside"
		case outer && !in:
			p.For = "outside"
		}
		out = append(out, p)
	}
	return out
}

func typeText(k plan.Kind) string {
	return map[plan.Kind]string{plan.ClusterIP: "ClusterIP", plan.LoadBalancer: "LoadBalancer", plan.ExternalIP: "ExternalIP", plan.NodePort: "NodePort"}[k]
}

// The hosts that stand for all of the node's addresses of a family.
const (
	node4 = "node"
	node6 = "node6"
)

// KeyText is a frontend as the listings show it: 10.96.0.1:443/TCP, node:30080/UDP.
func KeyText(k plan.Key) string {
	at := netip.AddrPortFrom(k.Addr, k.Port).String()
	switch {
	case k.IsNodePort() && k.IPv6:
		at = fmt.Sprintf("%s:%d", node6, k.Port)
	case k.IsNodePort():
		at = fmt.Sprintf("%s:%d", node4, k.Port)
	}
	return at + "/" + strings.ToUpper(k.Protocol.String())
}

// ParseKey reads a frontend, as the listings show it or as a URL does:
// tcp://10.96.0.1:443. Without a protocol it is TCP.
func ParseKey(text string) (plan.Key, error) {
	proto, at, isURL := strings.Cut(text, "://")
	if !isURL {
		at, proto, _ = strings.Cut(text, "/")
	}
	bad := fmt.Errorf("frontend %q: give an address and a port such as 10.96.0.1:443/TCP, tcp://10.96.0.1:443 or node:30080/UDP", text)
	protocol, ok := map[string]objects.Protocol{"": objects.TCP, "tcp": objects.TCP, "udp": objects.UDP, "sctp": objects.SCTP}[strings.ToLower(proto)]
	if !ok {
		return plan.Key{}, bad
	}
	for host, at6 := range map[string]string{node4 + ":": "0.0.0.0:", node6 + ":": "[::]:"} {
		if port, is := strings.CutPrefix(at, host); is {
			ap, err := netip.ParseAddrPort(at6 + port)
			if err != nil || ap.Port() == 0 {
				return plan.Key{}, bad
			}
			return plan.Key{IPv6: ap.Addr().Is6(), Protocol: protocol, Port: ap.Port()}, nil
		}
	}
	ap, err := netip.ParseAddrPort(at)
	if err != nil || ap.Port() == 0 || ap.Addr().Zone() != "" {
		return plan.Key{}, bad
	}
	addr := ap.Addr().Unmap()
	return plan.Key{IPv6: addr.Is6(), Addr: addr, Protocol: protocol, Port: ap.Port()}, nil
}

// ErrNoFrontend: the plan of this node has none of that key.
var ErrNoFrontend = errors.New("no frontend of this node")

// Find is the frontend that a packet to a key meets, in a plan of its Service only.
func Find(p *plan.Plan, k plan.Key) (plan.Key, *plan.Plan, error) {
	owners := plan.Owners(p)
	o, ok := owners[k]
	if !ok && slices.Contains(p.Node.Addrs, k.Addr) {
		k.Addr = netip.Addr{}
		o, ok = owners[k]
	}
	if !ok {
		return k, nil, fmt.Errorf("%s: %w", KeyText(k), ErrNoFrontend)
	}
	return k, &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{o.Service: p.Services[o.Service]}}, nil
}
