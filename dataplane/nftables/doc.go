// Package nftables keeps a plan in the kernel's nf_tables, by netlink.
//
// # Words
//
//	frontend   an address, protocol and port that clients connect to
//	slot       a numbered place of a frontend; it holds one endpoint
//	class      a view and a number of slots: 1:3 is "in services, 3 slots"
//	view       one of three maps of frontends, each with its map of slots
//
// # Shape
//
// There are two tables, ip and ip6, both named plumbline, with a constant set of
// maps and rules. Whatever differs from Service to Service is elements of plain
// data maps; testdata/ruleset.nft shows the tables as nft prints them.
//
//	prerouting, output (nat, dstnat)
//	  from a local pod, or the node itself, to a node address:
//	      protocol . port           -> nodeports-inside  \
//	  address . protocol . port     -> services           > class -> classes -> chain
//	  to a node address:
//	      protocol . port           -> nodeports         /
//	chain services-3: dnat to service-slots[address . protocol . port . random of 3]
//	chain reject: TCP reset, otherwise ICMP port unreachable
//	chain drop
//	postrouting (nat, srcnat), for what was sent elsewhere by a dnat:
//	  original destination in masquerade-off-cluster and source no pod   -> masquerade
//	  ... in masquerade-nodeports                                        -> masquerade
//	  ... in masquerade-node and source of this node                     -> masquerade
//	  source . destination in hairpin (a local endpoint and itself)      -> masquerade
//
// The view nodeports-inside holds the node ports under policy Local: local
// clients get other endpoints there than outsiders. Such a frontend is in both
// maps. The first rules look in it first.
//
// nat chains see the first packet of a connection only; so do reject and drop.
// An established connection is never cut by a change of rules.
//
// # Why
//
// One endpoint that changes is one element deleted and one added, whatever the
// number of Services: BenchmarkReplaceEndpoint. Nothing is read back, and no rule
// is written. Refused alternatives:
//
//   - A chain for each Service with an anonymous map of its endpoints, as
//     kube-proxy does: the kernel walks a table's chains and sets by name for every
//     operation, and an anonymous map is rewritten whole (kubernetes issue 139513:
//     44 000 Services, a minute for one change).
//   - A verdict map from frontend to chain: the kernel validates the chains behind
//     every element of a verdict map whenever one of them changes, 1.5 ms at 10 000.
//     So verdicts are in one constant map, classes, and the frontend's element
//     holds the class as data.
//   - A class kept in a register between the two lookups: legal, but nft 1.0.6
//     aborts when it lists such a rule, and so does everything built on that nft.
//     TestNftLists holds us to it.
//   - A class in bits of the packet's mark: other software owns the mark, and it
//     steers routing. The class travels in the packet's priority instead, which is
//     written and read by rules of one packet per connection, is cleared before
//     the dnat, and which forwarding overwrites in any case. A socket's own
//     SO_PRIORITY is lost for the first packet of a connection to a Service.
//   - A mark for masquerading, as kube-proxy does: conntrack remembers the
//     destination the client meant, so postrouting can look it up in a set.
//   - A filter hook for reject and drop: since Linux 5.9 reject may answer from
//     prerouting, and there it costs established connections nothing.
//
// The price is that slots are duplicated between a Service's ClusterIP and its
// node port: one endpoint that changes is then two or three elements.
//
// # Changes
//
// Apply writes one batch for one change, which the kernel takes in as a whole. A
// large one (a start with thousands of Services) is split between frontends; each
// frontend changes as a whole even then. A rule's two lookups may fall on both
// sides of a change: then the chosen slot may be gone, and slot 0 serves; if the
// whole frontend is gone the packet is dropped, and its next attempt meets the
// new rules.
//
// The Target mirrors the kernel's elements in memory and writes differences. At
// the start, and after any error, it reads the tables back once and writes what
// differs; it never flushes. If others write to nftables during that dump it is
// made again. Tables are replaced only if the kernel refuses our constant rules
// beside them, as those of an incompatible version; after any other error they
// stay as they are, and the next Apply reads them back again.
//
// # Limits
//
// Refusals by ICMP (UDP) are rate limited by the kernel, one in a second to each
// destination after a burst (icmp_ratelimit). UDP connections that conntrack
// remembers keep their endpoint until they end, also when it is gone: deleting
// them is not part of this package. The SCTP port of a Service has no rules.
//
// A host where other programs change nftables all the time, faster than our
// tables can be read, delays a start or a repair: the dump is given up after
// five attempts and left to the next Apply. Replacing the tables of an
// incompatible version is one transaction only as far as the new content fits
// one batch: some 4000 elements written, or half of the socket's send buffer,
// which is 16 MiB with NET_ADMIN in the initial user namespace and otherwise
// bounded by net.core.wmem_max. A single frontend that does not fit is refused
// with an error that says so.
//
// A packet looks up its class and then its endpoint; a change between the two is
// harmless (slot 0 is the second try). At a thousand changes a second no
// connection of 12 000 was lost; at 26 000 a second several fall between the two
// lookups, and the first SYN of 4 in 3 200 was.
//
// Needs Linux 5.9 (reject in prerouting; concatenations are older) and
// NET_ADMIN in the network namespace. Not safe for concurrent use.
package nftables
