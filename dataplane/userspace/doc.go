// Package userspace forwards Services by a process that takes connections in and
// makes new ones to the endpoints. It asks plan.Resolve for each of them: it is
// that function at work, to hold others against, not a fast dataplane.
//
//	Apply(old, new) -> index     what Resolve answers from, in memory
//	                -> sets      what is intercepted, refused or dropped, in nftables
//	packet -> classify, output   by the sets: mark it, refuse it, drop it
//	       -> deliver -> tproxy  a listener of the process, or the connection's socket
//	       -> session or flow    Resolve, connect to an endpoint, carry data both ways
//
// At a start of 10 000 Services the last of ten transactions comes some 0.4 s after the first
// (busy host): the API's frontends and those of kube-system are in the first (plan.First).
//
// # Interception
//
// There are tables "plumbline-userspace" of families ip and ip6. Their chains
// are constant (testdata/ruleset.nft shows them), their sets hold the frontends
// by what is to be done with them. A connection that is forwarded to nowhere is
// refused or dropped by these rules, before anybody accepts it. A change of
// endpoints changes nothing in the kernel.
//
// Packets to be forwarded get mark 0x10 (of mask 0x12), for which routing
// rule 90 looks in table 28780, where all addresses are local; there, tproxy
// gives them to the process. Those of the node itself are marked on their way out
// and come back by the loopback interface. There is one listener for each family,
// protocol and way in, on a port of the loopback address that the kernel chooses.
// Accepted sockets have the address that the client meant for their own; a UDP
// listener is told it (IP_RECVORIGDSTADDR).
//
// Where the plan keeps the source, the connection to the endpoint is made from the
// client's address, with another port (IP_TRANSPARENT). What the endpoint answers
// is found by the socket that it is for (nft: socket mark), and, where that does
// not work, on the way out of an endpoint on the node's own network, by bit 0x10
// of the connection's mark in conntrack.
//
// All sockets of the process have mark 0x02 or 0x12, and what they send is not
// looked at: an endpoint that is itself a frontend is not followed.
//
// # Memory
//
// Session affinity is remembered in the process, per source and Service port, and
// is lost with it. A UDP flow is a client's address and port and a frontend's. It
// ends when nothing is sent for 30 s before and 120 s after the first answer, when
// the endpoint refuses, and when a change of plan takes its frontend away, keeps
// the client out of it, or leaves its endpoint serving no more: then its next
// datagram is resolved anew.
//
// # What it cannot keep
//
//   - Connections end with the process: by a reset on Close, by an end that looks like
//     any other when the process is killed. The rules stay, and new connections wait:
//     their SYN is dropped until the next process listens. With Config.StateDir that
//     process tells how many connections and flows ended with the one before, if that
//     could not. Those the kernel had accepted and the process had not yet are not
//     counted; one whose handshake was not through when the process was killed may
//     learn of it only when it sends.
//   - Close leaves connections time to end (Config.Drain) only where the embedding
//     program asks for it, as it may for other UDP times; by default, and in
//     plumb-proxy, there is none.
//   - A client is accepted before its endpoint is. If that refuses, or does not
//     answer in 31 s, the client is reset; a UDP client learns nothing. A plan that
//     changes between a client's SYN and its acceptance may also reset it
//     (Stats.Late).
//   - Both ends speak to the process's TCP: its options, window, and time to live.
//     Urgent data and ECN marks end here. Keep-alives are sent after the system's
//     time (two hours); an idle connection is never given up.
//   - The source port is another one. A client that connects to the endpoint
//     directly, from just the port that was chosen, has its answers taken away.
//   - A UDP frontend whose port a program on the node holds on all addresses,
//     without SO_REUSEADDR, is not answered for (Stats.Turned, and a log line).
//   - SCTP is not forwarded: Supports says so, Apply refuses such frontends.
//   - Of a flush of conntrack, connections of the node itself notice: they stall
//     if the node is the first to send then.
//
// # Limits
//
// A TCP connection takes six file descriptors, a UDP flow two, of RLIMIT_NOFILE;
// beyond, connections wait and datagrams are dropped. To one endpoint there are as
// many connections from one address as ip_local_port_range has ports, and as many
// masqueraded UDP flows of a family in all. Datagrams that begin flows are taken by
// one goroutine for each listener.
//
// Needs Linux 5.9 with nft_tproxy, nft_socket and conntrack marks (an error names
// what is missing), the capability NET_ADMIN, and NET_BIND_SERVICE for UDP
// frontends below net.ipv4.ip_unprivileged_port_start. The sysctl src_valid_mark
// must be 0. Bits 0x12 of marks and 0x10 of conntrack's marks must not be used
// by others. Clean removes tables, routing rules and routes.
//
// Concurrency: see Target. Each connection has two goroutines, each flow two; all
// end with Close.
package userspace
