// Package conntrack ends what a node's connection tracking remembers of endpoints
// that serve no more. A rule is asked for the first packet of a flow only; while
// a UDP client keeps sending from one port, its flow goes where it always went,
// whatever the rules say by now.
//
//	Flows.Changed(old, new)        the rules are in; Flows.Run does the rest beside them
//	  work.take     -> work        pure: which destinations have another owner
//	  work.questions -> filters    pure: what the kernel is asked for (CTA_FILTER)
//	  work.judge    -> verdict     pure: keep, remove or reset, flow by flow
//	  kernel                       netlink: dump, delete one; a connection's reset
//
// No rule waits for a walk of the kernel's table, and neither does a count of a
// healthCheckNodePort. Changes that come during a walk, or during the rest after it (nineteen
// times as long, at most a second), are one afterwards. What a walk
// has found is judged again by all rules that may have been in the kernel by then
// (Changing, Changed). A walk that fails is tried again, with what it was to find. A flow that
// the kernel does not delete is tried again by itself.
//
// # The rule for UDP
//
// A flow belongs to the frontend that owns the destination of its first packet,
// found as plan.Resolve finds it: the exact address, else a node port if it is
// one of the node's addresses. It is stale, and deleted, if
//
//   - the frontend serves no endpoint with the address and port that the flow's
//     answers come from. Served are the endpoints of Outside, Inside and Draining.
//     This takes in an endpoint that went, another target port, no endpoint at
//     all (kubernetes issue 139628), and a flow that passed untranslated before
//     there was a rule: its answers would come from the destination itself
//     (issue 48719, zero to N endpoints);
//   - the frontend is restricted and the source is outside of its ranges;
//   - the frontend is gone (Service, port, type, external address, ipMode, node
//     address) and the flow went to an endpoint it had. One that was never
//     translated stays: it was none of its flows;
//   - at a complete Apply: it was translated though its destination is a port of a
//     ClusterIP that no frontend has.
//
// All else is kept: flows to endpoints that serve, ready or not, as KEP-1669 asks
// for; what has the port number of a node port and another destination (kube-proxy
// deletes these, pkg/proxy/conntrack/cleanup.go of v1.36.3); every destination that
// no frontend owns. The endpoints of both routes are good for every source: a
// traffic policy decides about new flows, as it does for TCP, and an endpoint of
// the other route serves as one that drains does.
//
// Flows of before are only those that the frontend allowed then. So one that only
// gains endpoints asks the kernel nothing, and one that loses some asks for the
// flows of these. A restart (a nil old) deletes nothing if nothing changed
// (issue 122740); the complete Apply of every hour also finds what a packet that
// was between two rules left behind. A Service that was deleted, or an external
// address taken away, while nobody watched leaves its flows: they cannot be told
// from somebody else's.
//
// # TCP
//
// Without ResetTCP, TCP is not touched: connections outlive an endpoint's
// termination (issues 100698 and 46753). With it, a connection through one of our
// frontends is reset when its endpoint has been gone for that time (Grace: 5 s): no
// Service's TCP port has it in a slice, in whatever state. One that is unready (a
// readiness probe that failed, a Node that is not heard of) is not gone: its connections
// may be all that works. A slice that is deleted and made again, or an endpoint that moves
// from one to another, is back before the time is over. At a start nothing is reset.
//
// Deleting the entry alone was measured: an idle client and an idle server hear
// nothing. A client that sends is reset if the rules lead it to another endpoint,
// which knows of no such connection; it hears nothing where they drop it, or have
// no rule left. A server that sends is reset by the client's host, which has no
// connection to that address.
//
// So a new entry takes the old one's place, between the peer's address and a port
// of the node where nobody listens, and the node sends a SYN through it, an
// ordinary connect. To the client it comes from the Service. A client with that
// connection answers with an ACK (RFC 5961, section 4.2); the node knows of none
// and refuses, with the very sequence number the client expects. The same is done
// for the endpoint's side. Measured with clients outside, on the node and in a
// pod, ClusterIP and masqueraded node port, both families, and another endpoint, no
// endpoint or no Service afterwards: a read that waits ends with "connection reset
// by peer" on both sides, within 0.3 ms of the entry's replacement. If the SYN is lost the
// entry refuses what comes for two minutes. A client that waits for its first
// answer is not reset: the next SYN goes elsewhere.
//
// # Netlink
//
// Needs NET_ADMIN in the namespace, and no NET_RAW. Asked for with CTA_FILTER
// (Linux 5.8); without it the family's table is read for each change, and a
// warning says so once. IPv6 is asked for by port: the kernel's comparison of IPv6
// addresses is inverted (portOnly). A flow is deleted by the tuple of its answers,
// which names its endpoint, and its id, so that one that began anew is not hit.
//
// The kernel walks its hash table (one for all namespaces) for each question. With
// 262 144 buckets on 2 shared cores (BenchmarkDump, ms; one flow of the endpoint):
//
//	flows in the table       1 000   50 000   200 000
//	flows of one endpoint       26       46       120
//	all UDP of the family       17      273      1017
//
// More than four questions of a family and protocol become one dump of these, in
// constant memory.
//
// # Limits
//
// For backends that translate with conntrack (nftables, iptables): the userspace
// proxy has no translated flows. Only the default conntrack zone. SCTP is left
// alone. A TCP connection whose frontend went more than ResetTCP before its endpoint did
// is not found.
package conntrack
