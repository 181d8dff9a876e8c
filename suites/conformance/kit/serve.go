package kit

import (
	"context"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Serve has pods serve TCP at so many further ports, from a first one on, until the behaviour ends.
func (s *Spec) Serve(first uint16, n int, pods ...*Pod) (ports []uint16) {
	for i := range n {
		ports = append(ports, first+uint16(i))
	}
	if s.planned != nil {
		return ports
	}
	for _, p := range pods {
		for _, number := range ports {
			port := remote.Port{Network: remote.TCP, Port: number, Mode: remote.Serving}
			s.must(p.probe.SetPort(s.ctx, port), "have %s serve port %d", p.Name, number)
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

// AtAll wants the answers of each server to come from each of these ports and from no other,
// with so many attempts in all.
func (w Want) AtAll(ports []uint16, n int) Want {
	w.ports, w.n = ports, n
	w.text += " at each of their ports"
	return w
}
