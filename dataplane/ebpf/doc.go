// Package ebpf keeps a plan in maps, and translates by eBPF programs at the node's devices, and at the
// sockets of what runs on it.
//
//	New(Config) -> Target; Apply(old, new)  differences, or a take-over
//	Target.Watch                            new devices get their programs
//	Render(plan), Dump(pins)                the same text of plan and maps
//	Missing(netns, pins)                    what devices and sockets lack
//	Path(plan, key, pins)                   one frontend's way, asked of the maps
//	Clean(netns, pins), Left(netns, pins)   programs off all devices and the cgroup, maps gone
//
// # What there is, and what is missing
//
// The part at devices (tc) is complete for what crosses them: everything that plan.Resolve states,
// of IPv4 and IPv6, TCP and UDP, from outside, from pods and to pods. A packet of the node's own
// network namespace has been routed before a program of a device sees it, and none sees what stays
// on the node. So the node's own programs are not served: what they send to a frontend, or to the
// rest of a ClusterIP, is stopped (not refused) where it leaves by a device; to an address that the
// node has itself it arrives as if there were no Service. What they send to an address of the
// ServiceCIDRs that no Service has is stopped there, too. The contract suite leaves these rows out and has their number
// (dptest.Backend.NoNode); all others hold.
//
// With Config.Cgroup there is the part at sockets as well, which serves the node's own, and
// TestAtSockets asks the whole contract but for two rows (see Limits). Frontends of SCTP are refused by
// name.
//
// # Words
//
//	list     endpoints under a number: slots 0 to n-1, and the same as members, to ask for one
//	entry    of a connection: what to do with a packet that looks like this at this step
//	F, R     entries of every connection: client to frontend at ingress, endpoint to client at egress
//	M, S     two more of a masqueraded one: client to endpoint at egress, endpoint to the node's
//	         address at ingress
//	class    what an address is: one whose rest is refused, one of node ports, one of frontends
//
// # The way of a packet
//
//	client -> device: plumb_ingress     F: destination becomes the endpoint's
//	          the kernel routes          (it sees client and endpoint)
//	          device: plumb_egress      M: source becomes the node's, if masqueraded -> endpoint
//	endpoint -> device: plumb_ingress   S: destination becomes the client's
//	          the kernel routes          (it sees endpoint and client)
//	          device: plumb_egress      R: source becomes the frontend's -> client
//
// So routing, netfilter and conntrack see the true client and the true endpoint both ways. The
// source is never replaced at ingress: a packet that comes in with an address of the node for its
// source is a martian. The entries are made at once, by the first packet: R, S, M, and last F, by
// which the others are found; who comes second to F takes what is there. Each pair of partners is
// refreshed by either side's packets. Where another connection has the same client's port and
// endpoint by another frontend, the client gets another source port at ingress, or the answers
// could not be told apart. The port of a masqueraded connection is the client's, if that is in
// Config.SNATPorts, else the next one of these from one at random on that no other connection to
// the endpoint has; at need that of one which both sides have ended, or one has reset.
//
// A TCP connection begins with a SYN; any other packet without an entry passes on untouched, for
// conntrack may know it from the backend that was here before, and is stopped at egress if it
// still has a Service's address, or one of the service CIDRs that no Service has. A TCP connection
// never moves; a UDP one asks with each packet, and TCP with a SYN, whether the endpoint still
// serves, and is begun anew where not. An open TCP connection is remembered for 6 hours, one whose
// client has not answered the answer for 60 s, after one side's FIN for 120 s, after both for 61 s (the
// other client that gets its ports earlier may meet a socket in TIME_WAIT), after a reset for 10 s; where
// no other port is left, that of an ended connection is given at once; a UDP one for 30 s, or 120 s if they still speak after a second. A refusal is the packet
// itself, made a TCP reset or an ICMP port unreachable and sent back by the device it came by; ICMP
// but for an echo is not answered, nor what has no single sender, nor what is over the limit of
// REFUSALS in bpf/maps.h: so no flood has the node answer all of it.
//
// What a device only hears (frames for others, broadcast, multicast) passes on untouched at ingress.
// A port of a bridge sees frames for the bridge, and stands for it: so what is translated is so
// before netfilter sees it, also where that looks into bridges. The programs go along with a device
// that moves to another namespace and do nothing there, for they ask for the device first: its
// entry goes when Watch hears that it left. (The cookie of bpf_get_netns_cookie is the socket's, and
// a packet that comes in has none.)
//
// # The way of a socket
//
//	connect, or sendmsg without it   plumb_connect4 and 6, plumb_sendmsg4 and 6: the destination
//	                                 becomes the endpoint's, or the call ends with ECONNREFUSED
//	recvmsg                          plumb_recvmsg4 and 6: the source becomes the frontend's again
//	getpeername                      plumb_getpeer4 and 6: likewise
//	close                            plumb_release: what plumb_udp has of it goes
//
// This is plan.Options.Sockets: no packet carries the Service's address, so none is translated and
// none masqueraded. Whose socket it is goes by the cgroup of the thread that made it, and all
// within Config.Cgroup are inside, whatever their address. What a socket cannot decide it leaves as
// it is, and the programs of devices see its packets: a pod's at a frontend with source ranges, or
// with an endpoint that would be taken for a Service itself at a device (a host network's pod at the
// number of a node port, an address that Services are given), what is dropped (for that is silence,
// and a call would say EPERM), addresses that no Service has, other protocols than TCP and UDP,
// sockets outside of the cgroup or connected before there were programs. The node's own are asked for
// source ranges by the address that they get, the first of the node's; where that is not let in their
// packets are stopped at egress.
//
// The client of affinity is the namespace's cookie, for a socket has no address before it is bound: the
// same pod is another client where its packets are seen (source ranges). A connected socket has its
// entry in itself (plumb_peers), which goes with it; of one that sends without, the last Service that
// led to an endpoint has its answers (plumb_sent), and a datagram to the endpoint itself ends that, or
// two minutes without any. Each datagram that is sent so chooses anew. IPv6 sockets that speak IPv4
// (::ffff:a.b.c.d) are those of IPv4.
//
// A connect(2) of UDP to a Service takes 0.9 µs more than one to its endpoint where the same Service is asked again and
// again, and 1.8 to 2.6 µs where it is one of 1000 to 44 000 at random: by then what the maps have of it is in no cache.
// Of these the entry in the socket is 0.4 to 1.0 µs, which the kernel allocates each time; the class of the
// address 0.2 to 0.5, plumb_udp up to 0.2 (BenchmarkConnect; without each in turn, two rounds).
//
// What is sent by a connected UDP socket asks no program, so Watch looks after each Apply and at each
// sweep for those whose endpoint is in no route of what they asked for and does not drain (plumb_udp).
// The node's own are ended by sock_diag: the next call on the socket says ECONNABORTED. Those of pods
// are in namespaces that it takes SYS_ADMIN to enter: they are ended where Config.PodSpaces names these, and
// counted else (Stranded). TCP stays, or with Config.ResetTCP is ended alike when no frontend has named the
// endpoint for so long.
//
// # Maps
//
// bpf/maps.h has them. Addresses are of 16 bytes, so there is one set for both families. A
// frontend's entry names its lists; an endpoint that is replaced is one slot in place, one more is
// a slot and then the number, one less the number and then the slot. What changes most of a list,
// or what is done with it, is a new list and then the frontend's entry. So each packet sees a
// frontend as it was or as it is to be; one that finds a slot gone looks at the frontend again.
// The address of a frontend that is new comes last and goes first; that the rest of it is refused
// comes after all its frontends of a change. A complete Apply writes the frontends of the API and of
// kube-system first (plan.First), which is of use where programs are attached by then: at a start
// without any nothing is served until all are written. The cost is a comparison of the lists of the frontends
// that changed, and then that of the endpoints that did, for each frontend.
//
// What a change leaves over - old lists, slots behind the last, source ranges - is deleted a while
// later (Config.Grace), beside whatever is done then: a packet that found the frontend as it was
// finds its list. It takes no room: a full map has it deleted at once, and so has more than is to
// wait. An endpoint that goes from a list that stays is a member no more at once. Who ends leaves
// it to the next complete Apply.
//
// A full map refuses what is new, and leaves the frontend as it was. The node's own addresses have
// room of their own; what of the node's part has none all the same is logged, and stops no Service.
//
// Nothing but the maps is state: affinity has the key of the Service's port, not a number. A
// Target that finds maps adopts the lists that are whole, and writes what differs. One of another
// layout fills maps of its own and goes on with what the programs remember (layouts.go).
//
// What somebody else deletes from the maps no notification tells of. Watch asks four times a second for
// the memory of each map that the Target alone writes, which the kernel works out by its entries (Linux 6.4), and for
// the pins (look.go): so it costs the same however many Services there are. Before Linux 6.4 it counts the entries
// instead, as seldom as that takes a fiftieth of a processor: every 5 to 15 s with 44 000 Services; a count into which
// the Target wrote says nothing. What is missing is written anew from what the Target knows, and then everything is
// compared: with 44 000 Services the former took 0.2 to 0.7 s, the latter 3 s (BenchmarkRefill, BenchmarkStart, on
// a busy host), for which a second loss waits. Pins are put back at once, and nothing is compared for them. Of what programs write -
// connections, clients, fragments, what sockets asked for, counts - nothing is missed.
//
// # What is replaced under a packet's eyes
//
// The kernel replaces an entry of a hash map by putting the new one before all others of its bucket and
// then taking the old one out (htab_map_update_elem in its kernel/bpf/hashtab.c). RCU does not keep two
// things from who looks meanwhile, and TestRewritten has seen both, with writes as fast as they go. Who is past
// the first place of the bucket and not yet at the old one's finds neither: of 150 000 connections 14 were refused
// while their frontends were written. And from Linux 6.1 on the old one's memory is the first that the same
// processor takes for the next entry of that map, BPF_F_NO_PREALLOC or not (unit_free in kernel/bpf/memalloc.c puts it before
// all that is free; until then maps that are not preallocated waited for a grace period): who is interrupted
// before he has read it, or whose virtual processor is, reads another frontend's lists, another
// list's endpoint, or half of each. Of 140 000 connections 3 went to another Service's endpoint.
//
//   - A frontend that is not found, where that would refuse a packet or let it pass by its Service, is
//     looked for twice (front in bpf/choose.h).
//   - What begins a connection asks again for the frontend when its route is read, and for the slot when the
//     endpoint is, and goes by what both times say (still, slot); else it begins anew, up to three times. No two
//     lists have one number, so another's route passes only if both times the memory was found under the right
//     key and given to that same other one before it was read: two interruptions, each within some ns. To
//     read the first memory twice would tell nothing, and to compare where it is takes PERFMON.
//   - That the endpoint of a connection serves no more is believed when it was so twice (is_stale_still).
//
// So a packet of a connection that there is pays nothing, and what begins one two lookups of what it has just
// looked up; a SYN or datagram to an address of the node's that is for no Service pays one. What may still be
// misread: the seconds and the group of affinity, so that a client is not remembered this once, or under
// a Service whose list does not have the endpoint; an address whose class is replaced (another Service comes
// or goes there), taken for none; a device whose addresses are, taken for none. Tries have neither fault.
// The one entry of plumb_config is written over word by word. Connections and clients are changed in place by the
// programs; see Limits for those that are deleted.
//
// # What it costs
//
// A packet that is for no Service meets two programs that find nothing, 60 ns each as long as all they look at
// is in the processor's caches (BenchmarkPacket). Between two pods (BenchmarkOther: with the programs to
// without, two or three rounds of 60 turns on 2 CPUs) a byte there and back takes 5 to 6 % more of the
// processor, a datagram of one byte 13 to 14 %, and of a stream, which crosses in large segments, nothing is to be
// seen. Of this programs that end at once are 3 to 4 % and 2 to 5 %; to tell what the packet is, up to 1.5 % and
// 1 to 5 %; to look for its entry, up to 1 % and 2 to 9 %; what follows, the rest.
//
// A connection through a Service from outside, opened and reset, takes from 3 % less to 7 % more of the processor than
// with the nftables backend, one of the node's own from 11 % less to 8 % more, and the first packet, less a direct one,
// 1 to 2 µs more of 29 to 61 (suites/bench, six runs at 1000 to 44 000 Services, and three of first packets).
// Conntrack looks for a packet's entry once and keeps
// it with the packet; of what a program at ingress knows nothing reaches the one at egress but the mark, which other
// software owns: so that looks again, each time in another place of a table too large for any cache. To leave out
// the look at ingress for addresses that no Service has would let go of the connections of Services that
// are deleted.
//
// # What is counted
//
// Each place where a packet is dropped or refused has a reason (Reasons, bpf/maps.h), counted on
// each processor (Counts). Of every reason up to ten packets a second on each processor are shown
// to Config.Dropped while Watch runs. Of a frontend the connections that begin are counted, and the
// packets that are refused or dropped (Tallies, Path): that costs one lookup with the first packet
// of a connection and none with its others, which are not counted: an entry of a connection does
// not name its frontend. Package backend makes metrics of all this.
//
// What has ended of connections, clients and fragments, and what sockets sent long ago, is deleted by
// Watch every half minute; a packet never waits for that, for it takes what has ended for nothing. It
// finds how full these maps are (Uses, Crowded): when one has no room, what was not used for the longest
// time goes, and of an open TCP connection the packets that come then are those of unknown-tcp.
//
// # Why
//
//   - No maps within maps: a change of an inner one makes bpf(2) wait for a grace period, 14 ms.
//   - Programs are attached to devices without links: they stay when the process ends, go with
//     the device, need no pin for each, and are replaced in place, device by device, by the next
//     process. They are pinned before the first device gets them, so that one that is killed
//     meanwhile leaves none that its successor does not know. They come before what others have
//     attached by then: a program that lets a packet pass ends its way. Each
//     attachment by tcx waits for a grace period of the kernel's, some 10 ms, so a start on a
//     node with 100 devices takes a second or two; one that finds the programs of its own build
//     takes them over as they are. By clsact it does not wait. For as long as that takes the maps
//     of a first start have no frontends, and who served before serves.
//   - Programs at the cgroup have links, which are replaced in place beside other people's; their pins
//     hold them when the process ends. They have pins themselves as well, by which who is of their build
//     takes them over as they are: verifying them costs 20 ms of a processor. They are attached after those of devices, and what restores an
//     address before what replaces it.
//   - The programs at sockets are an object of their own over the same maps: a change of one is no
//     other build of the other, and who has no cgroup loads none.
//   - Pins are in a folder named by the namespace's cookie: opening a map by its number would take
//     SYS_ADMIN.
//   - An entry for each direction instead of one that is looked up both ways: a packet that is
//     nobody's costs one lookup among connections at egress, not two.
//   - Lists are not shared between a Service's addresses: an endpoint that changes is written for
//     each, and in return no list has two owners.
//
// # Limits
//
// A SYN that carries data is dropped and not reset where a Service refuses: the next one carries
// none. A full map refuses a frontend (plan.Refused); of connections and clients the one unused for
// the longest time goes. The kernel may give the memory of an entry of a connection or a client that is
// deleted to another one of the map while a packet still reads it. The folder of pins of a namespace that is gone stays until the next
// boot, or until somebody removes it: its programs went with the devices and the cgroup. A later fragment to a
// Service that comes before its first one, or 30 s after it, is dropped. A client that speaks to an
// endpoint and to a Service with that endpoint from one port at once gets both answers as the
// Service's, and so does one that sends UDP to the endpoint by a port that is remembered for the Service
// still; a TCP connection to the endpoint ends what is left of one to the Service that both sides have
// ended. In a namespace that a device has moved to, its programs know it still if it got a
// number there that a device of the node has. The checksum that a device was to complete is not
// completed in what an ICMP refusal quotes. Maps of other sizes are replaced, and open connections
// end. A pod's UDP socket that is connected stays with its endpoint, also when that is gone, and so
// does the node's own where the kernel cannot end it (Stranded), or where it was connected to a Service
// before there were programs; more than plumb_udp has room for are forgotten, those connected first
// before others. Where one of several endpoints would be taken for a Service itself, pods' choices of
// it are made once more at a device, which masquerades as for any packet, and it gets fewer than its
// share; a datagram of the node's own that is sent to it without connect is stopped. A node's own
// connection that a policy drops is silent only where it would leave by a device: to an address of the
// node's it arrives.
//
// # Needs
//
// A kernel with BTF and bpf_loop (Linux 5.17); tcx (Linux 6.6), else a clsact qdisc at each device,
// with modules sch_ingress and cls_bpf. NET_ADMIN and BPF, no other capability (TestCapabilities),
// from Linux 6.12.5 on; before, PERFMON too, for the verifier else refuses two narrow writes to one
// place of the stack. Without PERFMON it also follows branches that are mispredicted, and lets no
// pointer be one of two places, so there is no loop in the programs but the kernel's, and choices
// are made by masks. Before Linux 6.2 what a map is asked for is on the stack, or another map's.
// Before Linux 5.18 a call is not refused, a pod's packets are. To end sockets,
// CONFIG_INET_DIAG_DESTROY and module udp_diag. A bpffs (MountRoot). What is missing is
// named by the error. The tests run on Linux 6.18, and on Debian's 6.1 and 6.12 (`make kernels`).
// The programs are in C in folder bpf, compiled by `make generate` with clang 19; what that makes
// is part of the repository. They are licensed GPL-2.0-only OR BSD-2-Clause.
package ebpf
