// Package nftables keeps a plan in the kernel's nf_tables, by netlink.
//
//	New(Config) -> Target; Apply(old, new)  differences, or a take-over
//	Target.Watch                            says when somebody else changed our tables
//	Render(plan), Dump(netns)               the same text of plan and kernel
//	Path(plan, key, netns)                  one frontend's way, asked of the kernel
//	Clean(netns)                            removes our two tables
//
// # Words
//
//	frontend   an address, protocol and port that clients connect to
//	slot       a numbered place of a frontend; it holds one endpoint
//	class      a view and a number of slots: 1:3 is "in services, 3 slots"
//	view       one of four maps of frontends, each with its maps of slots
//	part       one of the eight maps of a view's slots, by a hash of the frontend
//	group      the frontends of a Service port, which remember clients together
//
// # Shape
//
// There are two tables, ip and ip6, both named plumbline, with a constant set of
// maps and rules. Whatever differs from Service to Service is elements of plain
// data maps; testdata/ruleset.nft shows the tables as nft prints them.
//
//	prerouting, output (nat, dstnat)
//	  address . protocol . port -> services                                     \
//	  to a node address:                                                         > class -> classes -> chain
//	      protocol . port -> nodeports-inside, of local pods; -> nodeports      /
//	  output looks at restricted and the inside views first, for the node's own; the
//	  classes of services are in service-classes, or guards would lead to themselves
//	chain guarded-services-3, of a frontend with such a rule:
//	  address . protocol . port in restricted, with the source not in restricted-sources -> drop
//	  address . protocol . port -> services-inside, of local pods -> class -> classes -> chain
//	  otherwise chain services-3
//	chain services-3: slot = random of 3; if there is none, slot 0
//	  service-slots[hash of address . protocol . port of 8] -> chain of the part
//	chain sticky-services-3: first the client's endpoint, if remembered and usable
//	chain service-slots-5: dnat to service-slots-5[address . protocol . port . slot]
//	chain rejected: TCP reset, otherwise ICMP port unreachable
//	chain dropped
//	input, postrouting (nat, before srcnat), for what was sent elsewhere by a dnat:
//	  of a protocol in learning, original destination in affinity-timeouts:
//	    remember source . group : endpoint
//	postrouting, then, by the original destination:
//	  in masquerade-off-cluster and source no pod        -> masquerade
//	  in masquerade-always                               -> masquerade
//	  in masquerade-node and source of this node         -> masquerade
//	  in masquerade-node and source . destination in hairpin-inside (an endpoint of another node, and itself)
//	                                                     -> masquerade
//	  the same for node ports, unless services has the address and port
//	  source . destination in hairpin (an endpoint that is or may be here, and itself) -> masquerade
//	forward, leave (filter), new connections that no dnat took:
//	  destination in cluster-ips   -> reject
//	  destination in service-cidrs -> drop
//
// The views "inside" hold external addresses and node ports under policy Local:
// local clients get other endpoints there than outsiders.
//
// nat chains see the first packet of a connection only; so do reject and drop in
// them. The two filter chains look at new connections, and leave alone what any
// program's dnat took, and what stays on the loopback link. An established
// connection is never cut by a change of rules.
//
// # Affinity
//
// The map affinity is written by the kernel alone: source address . group ->
// number of an endpoint, with the Service's timeout, which each new connection
// begins anew. An endpoint's number is a hash that a rule computes from the
// packet's destination after the dnat; agents compute the same, so nothing has to
// be kept or read back to know it. A view's slots hold each of its endpoints
// under that number too. So the way of a remembered client is four lookups,
// however many endpoints there are, and one whose endpoint is not in the view
// any more is forgotten and gets a random one. The memory outlives the agent.
//
// # Why
//
// One endpoint that changes is one element deleted and one added (two each with
// affinity), whatever the number of Services: BenchmarkReplaceEndpoint. Nothing
// is read back, and no rule is written. Refused alternatives:
//
//   - A chain for each Service with an anonymous map of its endpoints, as
//     kube-proxy does: the kernel walks a table's chains and sets by name for every
//     operation, and an anonymous map is rewritten whole (kubernetes issue 139513:
//     44 000 Services, a minute for one change).
//   - A verdict map from frontend to chain: the kernel validates the chains behind
//     every element of a verdict map whenever one of them changes, 1.5 ms at 10 000.
//     So verdicts are in constant maps, and the frontend's element holds the class
//     as data.
//   - A class kept in a register between the two lookups: legal, but nft 1.0.6
//     aborts when it lists such a rule, and so does everything built on that nft.
//     The same goes for an update whose data is a lookup: hence the hash.
//     TestNftLists holds us to it.
//   - A class in bits of the packet's mark: other software owns the mark, and it
//     steers routing. The class travels in the packet's priority instead, which is
//     written and read by rules of one packet per connection, is cleared, and
//     which forwarding overwrites in any case. A socket's own SO_PRIORITY is lost
//     for the first packet of a connection to a Service.
//   - One map for a view's slots: reading it back would be most of a restart. To
//     go on after each 32 KiB the kernel counts elements from the map's beginning,
//     so the time grows with the square of its size: 0.7 s for 100 000 slots, 12 s
//     for 440 000. In eight maps, by one reader, it is 0.1 s and 1.2 s. More would not pay: there
//     are maps and chains for every part of four views and two families.
//   - A digest of what was written, to be compared instead of reading back: it does
//     not tell what others have changed while no agent ran.
//   - A mark for masquerading, as kube-proxy does: conntrack remembers the
//     destination the client meant, so postrouting can look it up in a set.
//   - A set of clients for each endpoint, tried one after the other, as kube-proxy
//     does for affinity: it costs a lookup for each endpoint.
//   - Reject and drop of frontends in a filter hook: since Linux 5.9 reject may
//     answer from prerouting, and there it costs established connections nothing.
//     The rest of a ClusterIP cannot be refused there: another proxy's Service
//     may be translated later, or not by a dnat at all.
//
// What few Services have costs the first packets of the others nothing, or next to
// nothing: a frontend with source ranges or an inside view has a class of its own, and
// clients are remembered behind a lookup of the protocol. On a host with 1 000
// Services the lookups that this avoids were 0.7 µs of 50.
//
// The price is that slots are duplicated between a Service's addresses: one
// endpoint that changes is an element in each.
//
// # Changes
//
// Apply writes one batch for one change, which the kernel takes in as a whole. A
// large one (a start with thousands of Services) is split between frontends; each
// frontend changes as a whole even then. A rule's two lookups may fall on both
// sides of a change: then the chosen slot may be gone, and slot 0 serves; if the
// whole frontend is gone the packet is dropped, and its next attempt meets the
// new rules. A chain that is new (the first frontend with so many endpoints, or
// with such a timeout) is written one commit ahead: a packet on its way over the
// commit that makes a chain would find it empty. Only where tables are made or
// brought up to date is all of it one commit.
//
// The Target mirrors the kernel's elements in memory and writes differences. At
// the start, and after any error, it reads the tables back once and writes what
// differs; it never flushes. Rules carry a hash of themselves, so chains that are
// as they should be are not touched either, and a restart that finds everything
// in place writes nothing. Chains with hooks come last: where they were missing
// the rules come alive complete, in one transaction, so that at a start no Service is
// served before others (TestHooksComeLast), however many batches there were: an order of
// importance (plan.First) would have nothing to decide. If somebody writes to these tables
// during that dump, or the kernel resizes a set's hash table, it is made again; what others
// do to their own is no matter (package commits).
// Tables are replaced only if the kernel refuses our constant rules beside them,
// as those of an incompatible version; after any other error they stay as they
// are, and the next Apply reads them back again.
//
// A frontend that the kernel refuses is found by halving the batch, and all
// others are applied. On a kernel without nftables for IPv6 all of that family
// are refused.
//
// # Limits
//
// Refusals by ICMP (UDP) are rate limited by the kernel, one in a second to each
// destination after a burst (icmp_ratelimit). UDP connections that conntrack
// remembers keep their endpoint until they end, also when it is gone: deleting
// them is not part of this package.
//
// A million clients of each family are remembered; beyond, new ones are served
// without. Two endpoints of a frontend whose numbers are the same (one pair in
// 2^31) count as one to their clients. A timeout that is changed holds from a
// client's next connection on.
//
// A change of source ranges makes the kernel copy the set of all source ranges: 2
// ms with 400 ranges, 40 ms with 4000 on a busy host (BenchmarkSourceRanges).
// Other changes do not touch that set.
//
// A host where another program changes these very tables all the time, faster than they
// can be read, delays a start or a repair: the dump is given up after five attempts and
// left to the next Apply.
//
// Two sets are read at a time. Apply at a restart over 10 000 Services with ten endpoints each
// takes 0.17 s of an idle host of two processors, over 44 000 1.1 to 1.2 (BenchmarkTakeOver); without
// rules it takes 0.18 and 0.8 (BenchmarkColdStart).
//
// Replacing the tables of an incompatible version is one transaction only as far
// as the new content fits half of the socket's send buffer, with NET_ADMIN in the
// initial user namespace; otherwise net.core.wmem_max bounds it. That half is 8 to 64 MiB, by the
// memory of the host: while the kernel holds a transaction it takes up to 150 bytes of memory for
// each of it, where anybody on the host listens to nftables (an agent does), and half of what is
// available may be taken. A Service with ten endpoints is some 570 bytes, so 8 MiB hold 14 000,
// and 44 000 take 25 MB, for which 7.5 GB have to be available. These took nine seconds and
// 3.2 GB of a busy host with a listener, two and 0.3 without one, and four in parts; others'
// commits wait for as long. The agent takes 400 MB then, and 250 in parts.
// Beyond, nothing is served from the first transaction to the last, as at a start
// (TestReplacedInParts). A single frontend that does not fit is an error that says so.
//
// A packet looks up its class and then its endpoint; a change between the two is
// harmless (slot 0 is the second try). At 800 changes a second no first SYN of
// 720 000 connections was lost; at 19 000 a second several may fall between the
// two lookups, and one was (2 CPUs, Linux 6.18).
//
// Two agents at once (an old and a new one during an upgrade) correct each other
// only where they differ. Chains and sets of other versions, and chains of
// classes that are not in use any more, stay until Clean.
//
// # Needs
//
// Linux 5.9 (reject in prerouting; ranges in concatenations are 5.6, deleting from
// a rule 5.4) with nft_hash and nft_numgen, and NET_ADMIN in the network
// namespace, no other capability (TestCapabilities). Not safe for concurrent use,
// but for Watch.
package nftables
