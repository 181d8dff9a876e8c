package kit

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Serve has pods serve TCP and UDP at so many further ports, from a first one on, until the behaviour ends: ports of its
// own, for others go on beside it.
func (s *Spec) Serve(first uint16, n int, pods ...*Pod) (ports []uint16) {
	for i := range n {
		ports = append(ports, first+uint16(i))
	}
	if s.planned != nil {
		return ports
	}
	for _, p := range pods {
		for i := range 2 * n {
			port := remote.Port{Network: []remote.Network{remote.TCP, remote.UDP}[i%2], Port: ports[i/2], Mode: remote.Serving}
			s.must(p.probe.SetPort(s.ctx, port), "have %s serve %s at port %d", p.Name, port.Network, port.Port)
			s.onEnd(func() error {
				port.Mode = remote.Closed
				return p.probe.SetPort(context.WithoutCancel(s.ctx), port)
			})
		}
	}
	return ports
}

// AnswerLate has a pod serve UDP at a further port until the behaviour ends, and hold each answer back so long.
func (s *Spec) AnswerLate(p *Pod, number uint16, by time.Duration) {
	s.changed() // what was answered at once is not, from now on
	if s.planned != nil {
		return
	}
	port := remote.Port{Network: remote.UDP, Port: number, Mode: remote.Serving, Delay: by}
	s.must(p.probe.SetPort(s.ctx, port), "have %s answer at port %d after %s", p.Name, number, by)
	s.onEnd(func() error {
		port.Mode = remote.Closed
		return p.probe.SetPort(context.WithoutCancel(s.ctx), port)
	})
}

// AtEach wants the answers of each server to come from each of these ports and from no other, with so many attempts in
// all, whatever the shares.
func (w Want) AtEach(ports []uint16, n int) Want {
	w.ports, w.n, w.anyShares = ports, n, true
	w.text += " at each of their ports"
	return w
}

// AtAll wants the answers of each server to come from each of these ports and from no other, evenly,
// with so many attempts in all.
func (w Want) AtAll(ports []uint16, n int) Want {
	w = w.AtEach(ports, n)
	w.anyShares = false
	w.text += ", evenly"
	return w
}

// place is a server, and a port of it.
type place struct {
	name string
	port uint16
}

// uneven says of shares of attempts, of which none is zero, that they differ by more than chance has them
// differ once in 10^9: Pearson's statistic, whose cube root is nearly normal (Wilson and Hilferty).
func uneven(at map[place]int) string {
	total, most := 0, place{}
	for p, n := range at {
		total += n
		if n > at[most] {
			most = p
		}
	}
	if len(at) < 2 {
		return ""
	}
	mean, free, apart := float64(total)/float64(len(at)), float64(len(at)-1), 0.
	for _, n := range at {
		apart += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	if math.Cbrt(apart/free) <= 1-2/(9*free)+6*math.Sqrt(2/(9*free)) {
		return ""
	}
	return fmt.Sprintf("of %d attempts at %d places %s at port %d got %d, and all differ from even shares by a chi-squared of %.0f with %.0f degrees of freedom", total, len(at), most.name, most.port, at[most], apart, free)
}
