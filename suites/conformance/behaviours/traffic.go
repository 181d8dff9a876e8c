package behaviours

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
)

// askOn asks forty times for 32 KiB on each of some connections: one carries more than a MiB each way.
func askOn(s *kit.Spec, c kit.Client, to kit.Target, servers []kit.Client) {
	conns := s.Open(c, to, remote.Batch{Attempts: 40})
	for range 40 {
		s.All(c, to, s.Ask(c, to, conns, 0, 32<<10), servers...)
	}
}

// nearFull: datagrams and requests that fill most of a packet pass by each way, and so do their answers; over IPv4
// also datagrams that have no checksum (RFC 768).
func nearFull(s *kit.Spec, ways []kit.Way, servers ...kit.Client) {
	for _, way := range ways {
		each := remote.Batch{Attempts: 60, Payload: 1100, Concurrency: 4}
		s.All(way.From, way.To, s.Attempts(way.From, way.To, each), servers...)
		if each.Unsummed = way.To.MayBeUnsummed(); each.Unsummed {
			s.All(way.From, way.To, s.Attempts(way.From, way.To, each), servers...)
		}
	}
}

// closeHalf: connections of which the client has closed its direction carry the answer, and then the server's end.
func closeHalf(s *kit.Spec, ways []kit.Way, servers ...kit.Client) {
	for _, way := range ways {
		s.All(way.From, way.To, s.Attempts(way.From, way.To, remote.Batch{Attempts: 80, Payload: 8 << 10, HalfClose: true, Concurrency: 8}), servers...)
	}
}

// samePorts: connections from sixty ports, each twice, that end with RST are answered by some pods, whatever they met
// before. Others may go on beside it: the ports are for one behaviour.
func samePorts(s *kit.Spec, way kit.Way, first uint16, pods ...*kit.Pod) {
	samePortsEnding(s, way, first, true, pods)
}

// samePortsEnding is that of connections that end with RST, or in order: then their server remembers them for a while
// (TIME_WAIT), and takes a new one of the same client, port and destination, but not at once one that has come to it by
// another, whose timestamps may be older (RFC 7323).
func samePortsEnding(s *kit.Spec, way kit.Way, first uint16, abort bool, pods []*kit.Pod) {
	res := s.Attempts(way.From, way.To, remote.Batch{Attempts: 120, SourcePort: first, SourcePorts: 60, Abort: abort, Concurrency: 8})
	s.All(way.From, way.To, res, kit.Clients(pods...)...)
}

// manyOfANode: of a Service of its own with nine endpoints of each of three pods, of which two are on the first node, these
// two answer at each of their ports, nine from the first on, by ways that lead to that node's alone. Of 18 one with half of
// its even share is spared by chance in 18 * (35/36)^1000, once in 10^10 ways.
func manyOfANode(s *kit.Spec, svc *kit.Service, ways []kit.Way, first uint16) {
	n := s.Nodes
	ports := s.Serve(first, 9, n[0].A, n[0].B, n[1].A)
	for _, number := range ports {
		svc.SliceAt(fmt.Sprint(number), int32(number), n[0].A.Ready(), n[0].B.Ready(), n[1].A.Ready())
	}
	heard(s, n[0].B.Client)
	s.Each(ways, kit.Pods(n[0].A, n[0].B).AtEach(ports, 1000))
}

// inSlicesOfTheirOwn gives a Service a slice for each of some pods, between two that have none that is ready.
func inSlicesOfTheirOwn(svc *kit.Service, pods ...*kit.Pod) {
	svc.Slice("0", nil, pods[0].Node.B.NotReady())
	for i, p := range pods {
		svc.Slice(fmt.Sprint("a", i), nil, p.Ready())
	}
	svc.Slice("z", nil)
}

// stand opens TCP connections by some ways. It returns what demands that each of them stays whole.
func stand(s *kit.Spec, ways []kit.Way) (stay func()) {
	var flows []*kit.Flows
	for _, way := range ways {
		flows = append(flows, s.Flows(way.From, way.To, 16))
	}
	return func() { s.Stay(flows...) }
}

// flow begins UDP flows by some ways. It returns what demands that each of them reaches a pod.
func flow(s *kit.Spec, ways []kit.Way) (reach func(*kit.Pod)) {
	reachAt := flowAt(s, ways)
	return func(p *kit.Pod) { reachAt(p, 0) }
}

// flowAt is flow of which it matters at which port a pod is reached; 0: at any.
func flowAt(s *kit.Spec, ways []kit.Way) (reach func(p *kit.Pod, port uint16)) {
	var flows []*kit.Flows
	for _, way := range ways {
		flows = append(flows, s.Datagrams(way.From, way.To, 8))
	}
	return func(p *kit.Pod, port uint16) {
		for _, f := range flows {
			f.ReachPort(port, p.Client)
		}
	}
}

// affinities are a Service without and with one.
func affinities() []func(*corev1.Service) {
	return []func(*corev1.Service){func(*corev1.Service) {}, kit.Sticky(600)}
}

// follow: UDP flows by some ways reach the endpoint that takes the place of another, and so after there
// was none for a while, and when it ends beside one that is ready, as it does when it had terminated before; without
// affinity also the one that is left of two.
func follow(s *kit.Spec, svc *kit.Service, ways []kit.Way, first, second, third *kit.Pod) {
	s.Each(ways, kit.Pods(first))
	reach := flow(s, ways)
	reach(first)
	svc.Endpoints(second.Ready())
	reach(second)
	svc.Endpoints()
	s.Each(ways, kit.Unreachable())
	svc.Endpoints(third.Ready())
	reach(third)
	svc.Endpoints(third.Ending(), first.Ready())
	reach(first)
	if svc.Object().Spec.SessionAffinity == corev1.ServiceAffinityNone {
		svc.Endpoints(first.Ready(), second.Ready())
		s.Each(ways, kit.Pods(first, second)) // new ones: those that are there may stay
		svc.Endpoints(second.Ready())
		reach(second)
	}
	if s.Has(kit.TerminatingFallback) {
		svc.Endpoints(first.Draining())
		s.Each(ways, kit.Pods(first))
		reach(first)
		svc.Endpoints(first.Ending(), third.Ready())
		reach(third)
	}
}
