package kit

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// narrowMTU is the packet that a narrow path takes: less than links of clusters do, and no less than
// IPv6 demands.
const narrowMTU = 1290

// narrowProto says who made a route (rtnetlink(7), rtm_protocol): a route like it of somebody else's, for which
// there is no second, is not taken away in its place.
const narrowProto = "113"

// Narrow has a node send no packets larger than narrowMTU to an address until the behaviour ends, whatever
// its link takes: what is larger it refuses to forward by ICMP, fragmentation needed or packet too big, or
// sends in fragments. Via is the next host of the way there. It needs NeedNodes.
func (s *Spec) Narrow(n *Node, to, via netip.Addr) {
	if s.planned != nil {
		return
	}
	route := []string{Alone(to), "via", via.String(), "proto", narrowProto, "mtu", "lock", fmt.Sprint(narrowMTU)}
	s.ExecUntilEnd(n, append([]string{"ip", "route", "add"}, route...), append([]string{"ip", "route", "del"}, route...))
	if taken := s.Exec(n, "ip", "route", "get", to.String()); !strings.Contains(taken, fmt.Sprintf("mtu lock %d", narrowMTU)) {
		s.Inconclusive("node %s has a narrow route to %s, and does not take it: %s", n.Name, to, taken)
	}
}

// Attempts of a payload larger than a narrow path takes in one packet, and of a datagram that is one packet
// of a link.
const (
	LargeRequest  = 32 << 10
	LargeDatagram = 1400
	largeTries    = 8
	largeTimeout  = 3 * time.Second
)

// Large demands that all attempts with a payload are answered by the servers, by each way. Directly is a way
// past every Service: there they are to be answered too, or nothing can be said.
func (s *Spec) Large(ways []Way, directly Way, payload int, servers ...Client) {
	if res := s.large(directly, payload); s.planned == nil && !res.Summary().All(remote.OK) {
		s.Inconclusive("%s to %s, without a Service, with %d bytes: %s", directly.From.at(), directly.To, payload, res.Summary())
	}
	for _, way := range ways {
		s.All(way.From, way.To, s.large(way, payload), servers...)
	}
}

// large makes attempts with a payload. The first few datagrams may be lost: by them the client learns how
// large they may be.
func (s *Spec) large(way Way, payload int) *remote.Results {
	b := remote.Batch{Attempts: 1, Payload: payload, Timeout: silence}
	if way.To.network == remote.UDP {
		for range icmpTries {
			if s.Attempts(way.From, way.To, b).Summary().All(remote.OK) {
				break
			}
		}
	}
	b.Attempts, b.Timeout, b.Concurrency = largeTries, largeTimeout, 2
	return s.Attempts(way.From, way.To, b)
}
