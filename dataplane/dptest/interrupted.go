//go:build linux

package dptest

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Interrupted ends a change of many frontends at each place where it can end: before a write,
// and after it with its word lost. The change is one by difference, a first one, and a take-over
// of what another process left. Then each frontend is as before or as wanted, as a whole, and so
// is what all share: no packet is treated otherwise. The same Target, or another one after the
// first was killed there, ends with what is rendered and with packets as wanted. It needs root.
func Interrupted(t *testing.T, b Backend) {
	if b.Faulty == nil {
		t.Skip("this backend has no writes that fail one by one")
	}
	for _, c := range []interruption{
		{name: "difference", from: interruptedPlan(0), differs: true},
		{name: "first", from: plan.Build(&objects.Snapshot{}, defaults())},
		{name: "take-over", from: interruptedPlan(0)},
	} {
		for _, killed := range []bool{false, true} {
			name, c := c.name, c
			if c.killed = killed; killed {
				name += ", killed"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c.to, c.k = interruptedPlan(1), b.place(t)
				c.after = math.MaxInt
				places := c.run(t, b)
				if places == 0 {
					t.Error("nothing is written")
				}
				// An odd step: before a write and after it are asked in turn.
				for c.after = 1; c.after <= places && !t.Failed(); c.after += places / *mostPlaces | 1 {
					c.run(t, b)
				}
			})
		}
	}
}

// interruption is a change and how it ends.
type interruption struct {
	name     string
	from, to *plan.Plan
	differs  bool // a change by difference
	killed   bool // with its process
	k        kernel
	after    int // questions for a fault; that one is answered by an error
}

// mostPlaces bounds the places that are tried, about, of a change with many writes. The default is
// for a test beside many; `make interrupted` tries all.
var mostPlaces = flag.Int("places", 4, "places at which an interrupted change ends, about")

// run interrupts the change once, if there is such a place, and tells how many there were so far.
func (c interruption) run(t *testing.T, b Backend) (places int) {
	there := false
	fd, when := c.k.FD(), fmt.Sprintf("with question %d for a fault answered", c.after)
	defer func() { _ = b.Clean(fd) }()
	t.Run(fmt.Sprint(c.after), func(t *testing.T) {
		asked, armed := 0, false
		target := b.Faulty(t, fd, func() error {
			if asked++; armed && asked == c.after {
				return faultKinds[c.after%len(faultKinds)]
			}
			return nil
		})
		c.before(t, b, target)
		asked, armed = 0, true
		var old *plan.Plan
		if c.differs {
			old = c.from
		}
		err := target.Apply(t.Context(), old, c.to)
		places, there = asked, asked >= c.after
		if there != (err != nil) || there && !errors.Is(err, errFault) {
			t.Fatalf("asked %d times, %s: %v", asked, when, err)
		}
		if there && b.EndsConnections == "" || c.differs { // else nobody serves what was left
			c.either(t, b, when)
		}
		if there && !c.killed {
			apply(t, target, nil, c.to)
			c.done(t, b, when+" and a complete Apply")
		}
	})
	if there && c.killed {
		t.Run(fmt.Sprint(c.after, " another"), func(t *testing.T) {
			apply(t, b.New(t, fd), nil, c.to)
			c.done(t, b, when+" and another Target's Apply")
		})
	}
	return places
}

// before has what is there at first written, by the Target that is interrupted if it is to
// know of it.
func (c interruption) before(t *testing.T, b Backend, target Target) {
	t.Helper()
	switch {
	case c.differs:
		apply(t, target, nil, c.from)
	case len(c.from.Services) > 0:
		t.Run("left", func(t *testing.T) { apply(t, b.New(t, c.k.FD()), nil, c.from) })
	}
}

// done looks for what is wanted.
func (c interruption) done(t *testing.T, b Backend, when string) {
	t.Helper()
	compareDump(t, b, c.k.FD(), b.Render(c.to), when)
	if err := b.forget(c.k); err != nil {
		t.Fatal(err)
	}
	if err := c.k.Check(t.Context(), c.to, b.rows(c.to, interruptedRows(c.to)), &Memory{}); err != nil {
		t.Errorf("%s:\n%v", when, err)
	}
}

// either finds each packet treated as before the change, or as after it.
func (c interruption) either(t *testing.T, b Backend, when string) {
	t.Helper()
	if err := b.forget(c.k); err != nil {
		t.Fatal(err)
	}
	var left [][]Row // the outcomes that have not been tried, of rows for which none was right
	for _, r := range b.rows(c.to, interruptedRows(c.to)) {
		left = append(left, mixed(b.node(c.from), b.node(c.to), r))
	}
	for len(left) > 0 {
		var rows []Row
		for _, as := range left {
			rows = append(rows, as[0])
		}
		err := c.k.Check(t.Context(), c.to, rows, &Memory{})
		if err == nil {
			return
		}
		var again [][]Row
		for _, as := range left {
			switch wrong := strings.Contains(err.Error(), as[0].Line+":"); {
			case wrong && len(as) == 1:
				t.Errorf("%s, neither as before nor as after:\n%v", when, err)
			case wrong:
				again = append(again, as[1:])
			}
		}
		if len(again) == 0 && !t.Failed() {
			t.Fatalf("%s: %v", when, err)
		}
		left = again
	}
}

// mixed are the outcomes of a row where each frontend that may claim it, and what all share, is
// as in one plan or as in the other.
func mixed(from, to *plan.Plan, r Row) (out []Row) {
	p := r.Packet()
	key := plan.Key{IPv6: p.Dst.Is6(), Addr: p.Dst, Protocol: p.Protocol, Port: p.Port}
	keys := []plan.Key{key, {IPv6: key.IPv6, Protocol: key.Protocol, Port: key.Port}, {IPv6: key.IPv6, Addr: key.Addr}}
	plans := []*plan.Plan{to, from}
	index := []map[plan.Key]*plan.Frontend{plan.Index(to), plan.Index(from)}
	for bits := range 1 << (len(keys) + 1) {
		mix := &plan.Plan{Node: plans[bits&1].Node, Services: map[objects.Name]plan.Service{}}
		for i, k := range keys {
			if f := index[bits>>(i+1)&1][k]; f != nil {
				mix.Services[named("mixed-", i)] = plan.Service{Frontends: []plan.Frontend{*f}}
			}
		}
		as := r.Resolve(mix)
		if !slices.ContainsFunc(out, func(o Row) bool { return o.Outcome() == as.Outcome() }) {
			as.Line = fmt.Sprintf("%s %s %s %s", r.From, r.Proto, r.To, as.Outcome())
			out = append(out, as)
		}
	}
	return out
}

// fillers are Services for the size of the change.
const fillers = 40

// interruptedPlan is the state before (0) and after (1): each frontend changes in another way.
func interruptedPlan(state int) *plan.Plan {
	snap, node := &objects.Snapshot{}, Node()
	snap.Apply(objects.Change{Node: &node})
	snap.Apply(objects.Change{ServiceCIDR: &objects.ServiceCIDR{Name: "all", Prefixes: prefixes("10.96.0.0/16", "fd00:10:96::/112")}})
	service := func(number, first, endpoints int) {
		name := named("changed-", number)
		snap.Apply(objects.Change{Service: &objects.Service{
			Name: name, Type: objects.NodePort, Internal: objects.Cluster, External: objects.Cluster,
			ClusterIPs: []netip.Addr{nth("10.96.4.0", number), nth("fd00:10:96::400", number)},
			Ports:      []objects.ServicePort{{Protocol: objects.TCP, Port: 80, NodePort: uint16(30400 + number)}},
		}})
		sl := objects.EndpointSlice{Name: name, Service: name, Ports: []objects.SlicePort{{Protocol: objects.TCP, Port: 8080}}}
		for i := range endpoints {
			for _, a := range Remote.Addrs() {
				sl.Endpoints = append(sl.Endpoints, objects.Endpoint{Addr: nth(a.String(), first+i), Node: "there", Ready: true, Serving: true})
			}
		}
		snap.Apply(objects.Change{Slice: &sl})
	}
	endpoints := func(before, after int) int { return []int{before, after}[state] }
	for i := range fillers {
		service(10+i, 3*state, 3)
	}
	service(0, 2*state, 2)         // others for all its endpoints
	service(1, 0, endpoints(1, 0)) // to its last
	service(2, 0, endpoints(0, 1)) // its first
	if state == 0 {
		service(3, 0, 1) // goes
	} else {
		service(4, 0, 1) // comes
	}
	service(5, 0, endpoints(1, 3))
	return plan.Build(snap, defaults())
}

// interruptedRows are packets to the Services that do not only fill.
func interruptedRows(p *plan.Plan) []Row {
	var rows []Row
	for i := range 6 {
		rows = append(rows,
			Row{From: PodB, To: netip.AddrPortFrom(nth("10.96.4.0", i), 80)},
			Row{From: Outside, To: netip.AddrPortFrom(Self.Addrs()[0], uint16(30400+i))},
		)
	}
	rows = append(rows, Row{From: Self, To: netip.MustParseAddrPort("10.96.4.0:80")}, Row{From: PodB, To: netip.MustParseAddrPort("[fd00:10:96::400]:80")})
	for i := range rows {
		rows[i].Proto = objects.TCP
		rows[i] = rows[i].Resolve(p)
		rows[i].Line = fmt.Sprintf("%s %s %s %s", rows[i].From, rows[i].Proto, rows[i].To, rows[i].Outcome())
	}
	return rows
}
