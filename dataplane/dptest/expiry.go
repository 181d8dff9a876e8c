//go:build linux

package dptest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

const (
	briefAffinity = time.Second // the shortest that the API allows
	// atEnds is how near the end of a timeout nothing is said: the kernel counts
	// in ticks.
	atEnds = 50 * time.Millisecond
	// expiryWithin is for a host that is so busy that uses come too late.
	expiryWithin = 2 * time.Minute

	// expirySides are IPv4 with TCP and IPv6 with UDP, of so many Services with so
	// many endpoints each. That chance takes every client of a side where it was
	// comes once in 16 million.
	expirySides, expiryServices, expiryEndpoints = 2, 8, 8
)

// Expiry comes back to Services with affinity again and again for longer than
// their timeout: each use begins the time anew, so that the client stays. Then it
// keeps away for as long, and may be led elsewhere, as it is for some of them. It
// needs root.
func Expiry(t *testing.T, b Backend) {
	k := b.place(t)
	target := b.New(t, k.FD())
	p, rows := expiryPlan()
	apply(t, target, nil, p)
	err := k.Visits(t.Context(), rows, func(visit func(Row) (netip.AddrPort, error)) error {
		last, err := keepUsing(rows, visit)
		if err != nil {
			return err
		}
		time.Sleep(briefAffinity + atEnds)
		return ledElsewhere(rows, last, visit)
	})
	if err != nil {
		t.Error(err)
	}
}

// use is the last one of a Service: where it led, and since when all uses were
// within the timeout of each other.
type use struct {
	at           netip.AddrPort
	since, begin time.Time
}

func (u use) enough() bool { return u.begin.Sub(u.since) > briefAffinity*3/2 }

// keepUsing uses every Service for longer than the timeout, and compares where that
// leads with the use before. As many as are left are used in turns; on a host where
// that takes a use too long, half as many.
func keepUsing(rows []Row, visit func(Row) (netip.AddrPort, error)) ([]use, error) {
	last, left := make([]use, len(rows)), make([]int, len(rows))
	for i := range left {
		left[i] = i
	}
	deadline := time.Now().Add(expiryWithin)
	for turns := len(rows); len(left) > 0; {
		late := false
		for _, i := range left[:min(turns, len(left))] {
			begin := time.Now()
			at, err := visit(rows[i])
			if err != nil {
				return nil, err
			}
			was, took := last[i], time.Since(last[i].begin)
			last[i] = use{at: at, since: begin, begin: begin}
			switch {
			case !was.at.IsValid():
			case took > briefAffinity-atEnds:
				late = true
			case at != was.at:
				return nil, fmt.Errorf("%s: went to %s, and to %s %s before", rows[i].Line, at, was.at, took)
			default:
				last[i].since = was.since
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("not within %s was each of %d Services used often enough for %s of affinity, %d at a time in the end: this host is too slow to tell", expiryWithin, len(rows), briefAffinity, turns)
		}
		left = slices.DeleteFunc(left, func(i int) bool { return last[i].enough() })
		if late {
			turns = max(1, turns/2)
			for _, i := range left {
				last[i] = use{}
			}
		}
	}
	return last, nil
}

// ledElsewhere uses every Service once more after its time: on each side some
// lead elsewhere.
func ledElsewhere(rows []Row, last []use, visit func(Row) (netip.AddrPort, error)) error {
	moved := make([]bool, expirySides)
	for i, r := range rows {
		at, err := visit(r)
		if err != nil {
			return err
		}
		moved[i/expiryServices] = moved[i/expiryServices] || at != last[i].at
	}
	if side := slices.Index(moved, false); side >= 0 {
		return fmt.Errorf("%s and %d more: after %s without use every client is where it was", rows[side*expiryServices].Line, expiryServices-1, briefAffinity)
	}
	return nil
}

// expiryPlan has the Services of each side, and a row for each.
func expiryPlan() (*plan.Plan, []Row) {
	snap, node := &objects.Snapshot{}, Node()
	snap.Apply(objects.Change{Node: &node})
	var rows []Row
	for side := range expirySides {
		proto, vip := []objects.Protocol{objects.TCP, objects.UDP}[side], []string{"10.96.2.0", "fd00:10:96::200"}[side]
		var endpoints []objects.Endpoint
		for i := range expiryEndpoints {
			endpoints = append(endpoints, objects.Endpoint{Addr: nth(Remote.Addrs()[side].String(), i), Node: "there", Ready: true, Serving: true})
		}
		for i := range expiryServices {
			name, at := named(fmt.Sprintf("brief-%s-", proto), i), nth(vip, i)
			snap.Apply(objects.Change{Service: &objects.Service{
				Name: name, Type: objects.ClusterIP, Internal: objects.Cluster, ClusterIPs: []netip.Addr{at}, Affinity: briefAffinity,
				Ports: []objects.ServicePort{{Protocol: proto, Port: 80}},
			}})
			snap.Apply(objects.Change{Slice: &objects.EndpointSlice{
				Name: name, Service: name, Ports: []objects.SlicePort{{Protocol: proto, Port: 8080}}, Endpoints: endpoints,
			}})
			rows = append(rows, Row{From: PodA, Proto: proto, To: netip.AddrPortFrom(at, 80), Line: fmt.Sprintf("%s %s %s", PodA, proto, at)})
		}
	}
	p := plan.Build(snap, defaults())
	for i, r := range rows {
		rows[i] = r.Resolve(p)
	}
	return p, rows
}
