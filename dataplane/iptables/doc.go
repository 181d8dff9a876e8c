// Package iptables keeps a plan in the kernel by the programs of iptables, nft or
// legacy flavour, both address families.
//
//	New(config)              -> Target
//	Target.Apply(old, new)   -> one iptables-restore --noflush for each family
//	Target.Poll(interval)    -> tells when somebody else has changed our chains
//	Path(plan, frontend)     -> the chains a packet to one frontend goes through
//	Clean                    -> removes all that is ours
//
// # Shape
//
// All chains begin with PLUMB-. Those of a frontend end in a hash of its address
// and port: no text of an object is ever part of a rule.
//
//	nat PREROUTING, OUTPUT -> PLUMB-SERVICES
//	  one rule for each address, protocol and port -> its chain
//	  last: to an address of the node -> PLUMB-NODEPORTS, one rule for each
//	PLUMB-FW-   lets in source ranges (loadBalancerSourceRanges)
//	PLUMB-EXT-  local clients -> PLUMB-SVC-, others -> PLUMB-SVL- (policy Local)
//	PLUMB-SVC-  asks for masquerading; with affinity, sends a client to the endpoint
//	PLUMB-SVL-  it had; picks one by probability 1/n, 1/(n-1) ... 1
//	PLUMB-SEP-  one for each endpoint: hairpin, remember the client, dnat
//	nat POSTROUTING -> PLUMB-POSTROUTING: what is marked -> masquerade
//
//	filter INPUT, FORWARD, OUTPUT, new connections -> PLUMB-FILTER
//	  sent elsewhere by some dnat: no concern of ours
//	  PLUMB-REFUSE        addresses without endpoints, sources out of range
//	  PLUMB-REFUSE-PORTS  node ports without endpoints
//	  PLUMB-UNCLAIMED     any other port of a ClusterIP
//	  in a ServiceCIDR: drop
//	filter FORWARD, what some dnat took -> PLUMB-FORWARD: accept what is to be
//	  masqueraded, and what belongs to an open connection
//	filter INPUT, TCP -> PLUMB-HEALTH: accept the ports of health checks
//
// A Service of ten endpoints on other nodes is 21 rules in 11 chains; TestRulesPerService
// holds us to the numbers. The nat table can neither drop nor reject, and must not:
// in the filter, what another proxy's dnat took has another destination already.
//
// Jumps to a frontend's chain are gotos, so that a packet that a frontend claims
// and does not forward (source ranges, no endpoints) meets no other rule of ours
// in nat, such as a node port at the same address.
//
// # Mark
//
// A packet that is to be masqueraded gets one bit of the packet mark, 0x1000 unless
// Config says otherwise. It is set in nat and cleared before the masquerade, on the
// first packet of a connection; nothing is masqueraded without it. The alternative
// without a mark is a rule in postrouting for each frontend, which every new
// connection of the node would walk through.
//
// # Affinity
//
// Each endpoint of a Service port with affinity has a list of the match `recent`.
// All frontends of the port share the lists. A client that is in none of a route's
// lists is taken off the others of the port before it is sent anywhere, so that it
// is never in two.
//
// The kernel keeps 100 addresses in a list, the module's parameter ip_list_tot:
// beyond, the client not seen for longest is forgotten. It can be set when xt_recent
// is loaded. A list goes with the last rule that names it: an endpoint that stops
// serving and comes back is a new one. Timeouts count whole seconds.
//
// # Changes
//
// What is written is what differs. An endpoint that changes is its Service's SVC
// chains rewritten and one SEP chain more and one less; the chains with a rule for
// each frontend get single rules inserted and deleted, which --noflush allows,
// and are never rewritten. Stale chains go in the transaction in which the last
// reference goes.
//
// A restore is one transaction for each COMMIT. We write up to three, in an order
// that lets no packet through undecided: filter rules that refuse more, then nat,
// then filter rules that refuse less. The filter judges only what nat sent nowhere;
// a refusal does nothing while, or as soon as, nat forwards. A packet between two
// sections may be dropped, and is sent again.
//
// A start reads the chains back with iptables-save, compares rule by rule and writes
// the difference; nothing is flushed, counters and `recent` lists go on. Chains
// are compared as text, so rules are spelled as both flavours print them. A large
// difference is written in batches of whole frontends by the nft flavour, those of the API
// and of kube-system first (plan.First), what goes
// last of all: one transaction costs it the square of what is in it. Legacy replaces the whole table
// in the kernel with every transaction, whatever we send; it gets one.
//
// What the kernel or the program refuses is found by the line it names, or else by
// halving; see plan.Refused. An error about something that is not there means that
// somebody has changed our chains, and refuses nothing.
//
// # Limits
//
// Measured with iptables 1.8.9 on Linux 6.18, ten endpoints each, on two cores that
// other work shared:
//
//	Services                      1      1000      5000     10000
//	one endpoint, nft         30 ms     60 ms    180 ms    340 ms
//	one endpoint, legacy      10 ms    250 ms     1.5 s     3.6 s
//	cold start, nft                     2.5 s      22 s
//	cold start, legacy                  0.9 s     6.7 s
//	read back, nft                      1.5 s      14 s      30 s
//	read back, legacy                   0.4 s     2.5 s
//
// Our text is the same at every size. Under nft the kernel walks all chains whenever
// a jump is added, to find loops; legacy copies the whole table out and in.
// iptables-nft-save takes more than its share with the number of chains, so a restart
// or a Poll of many thousand Services takes its time. A new connection walks through
// PLUMB-SERVICES rule by rule, then through its Service's endpoints; one that goes to
// no Service also through PLUMB-UNCLAIMED. The nftables backend has none of this.
//
// iptables-legacy-restore takes the lock /run/xtables.lock for each section, and
// waits five seconds for it: ErrLocked, the section under way changed nothing, those
// before it are in, and the next Apply reads back what is there. The nft flavour has
// no lock, nor need of one: the kernel tells it when somebody came between.
//
// Connections that conntrack remembers keep their endpoint; ending them is not part
// of this package. Refusals by ICMP are rate limited by the kernel (icmp_ratelimit).
// Where the host's FORWARD chain lets nothing through, new packets that are not masqueraded
// are the CNI plugin's to let through, as with kube-proxy.
//
// Needs the packages' programs, NET_ADMIN in the network namespace, and for legacy
// NET_RAW too; the matches conntrack, statistic, addrtype, mark, and recent for
// affinity. Frontends that need what the kernel lacks are refused by name.
//
// A Target is not safe for concurrent use, but Poll may run beside Apply.
package iptables
