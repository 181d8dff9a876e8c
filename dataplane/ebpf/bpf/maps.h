// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is kept for the programs: the maps, and the layout of what is in them. ../schema.go has
// the same for the loader. Addresses are of 16 bytes, IPv4 as ::ffff:a.b.c.d, and they and ports
// are in network byte order.
#pragma once

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct addr {
	__be32 w[4];
};

// What is the same for all Services.
struct config {
	struct addr masquerade[2]; // the node's, of IPv4 and of IPv6: for devices without one
	__u16 snat_low, snat_high; // the ports of masqueraded connections, host byte order
	__u32 flags;
	__u8 local_link[20]; // by which the node's own pods come, as text: for who reads this
};

#define CONFIG_SERVICE_CIDRS 1 // networks has some: else nothing is looked up there for what is not ours

// A device of the node.
struct device {
	struct addr masquerade[2]; // its first address of each family, zero if it has none
	__u32 l2;		   // bytes before the network header
	__u32 flags;
	__u8 mac[6]; // to which frames are for the node: its own, or that of the bridge it is a port of
	__u8 pad[2];
};

#define DEVICE_OWN_PODS 1 // what comes by it is of the node's own pods

// Networks: what a packet's source or destination belongs to, whole.
struct network_key {
	__u32 bits;
	struct addr addr;
};

#define NETWORK_OWN_PODS 1
#define NETWORK_SERVICES 2

// Classes of a destination address.
#define ADDRESS_CLUSTER_IP 1 // whose rest is refused
#define ADDRESS_NODE 2	     // where node ports are served
#define ADDRESS_EXTERNAL 4   // of some other frontend

struct frontend_key {
	struct addr addr; // zero for a node port
	__be16 port;
	__u8 proto;
	__u8 kind; // FRONTEND_*; of node ports also the family
};

#define FRONTEND_ADDRESS 0
#define FRONTEND_NODE_PORT 4
#define FRONTEND_NODE_PORT6 6

#define ACTION_FORWARD 0
#define ACTION_DROP 1
#define ACTION_REJECT 2

// Whose source is replaced: plan.Masquerade.
#define MASQ_KEEP 0
#define MASQ_OFF_CLUSTER 1
#define MASQ_ALWAYS 2
#define MASQ_NODE 3

// A list of endpoints and what to do with it; the third of a frontend has room for what comes.
struct route {
	__u32 list;
	__u32 n;
	__u8 action;
	__u8 masquerade;
	__u16 pad;
};

#define ROUTE_OUTSIDE 0
#define ROUTE_INSIDE 1
#define ROUTE_SPARE 2
#define ROUTES 3

struct frontend {
	struct route routes[ROUTES];
	__u32 draining;	    // the list of endpoints that serve without new connections; 0: none
	__u32 sources;	    // the number of its source ranges
	__u32 flags;	    // FRONTEND_HAS_*
	__u32 affinity;	    // seconds; 0: none
	struct addr group;  // address, port and protocol of the ClusterIP frontend of its Service port
	__be16 group_port;
	__u8 group_proto;
	__u8 service_kind; // plan.Kind
};

#define FRONTEND_HAS_INSIDE 1
#define FRONTEND_RESTRICTED 2

struct slot_key {
	__u32 list;
	__u32 index;
};

struct endpoint {
	struct addr addr;
	__be16 port;
	__u16 flags; // ENDPOINT_*
};

#define ENDPOINT_LOCAL 1
#define ENDPOINT_HOST 2

// Whether an endpoint is in a list.
struct member_key {
	__u32 list;
	struct addr addr;
	__be16 port;
	__u16 pad;
};

struct source_key {
	__u32 bits;
	__u32 sources; // big-endian
	struct addr addr;
};

struct affinity_key {
	struct addr client;
	struct addr group;
	__be16 group_port;
	__u8 group_proto;
	__u8 pad;
};

struct affinity {
	struct addr addr;
	__be16 port;
	__u16 pad;
	__u32 lasts; // seconds: for who deletes it
	__u64 used;  // ns since boot
};

// A connection is two or four entries, each of which says what to do with a packet that looks
// like its key at this step: with F (client to frontend) and S (endpoint to masqueraded source)
// at ingress the destination is replaced, with R (endpoint to client) and M (client to endpoint)
// at egress the source. M and S are of masqueraded connections only. The partner of an entry is
// at the other step, under the packet as translated, turned round: F and R are partners, and M
// and S are.
struct flow_key {
	struct addr src, dst;
	__be16 sport, dport;
	__u8 proto;
	__u8 step;
	__u16 pad;
};

#define INGRESS 0
#define EGRESS 1

struct flow {
	struct addr addr; // instead of the destination at ingress, of the source at egress
	__be16 port;	  // and its port
	__be16 other;	  // the other side's port after translation
	__u8 state;	  // FLOW_*, the same in an entry and its partner
	__u8 answer;	  // 1: of R and S, which what comes from the endpoint meets
	__u16 pad;
	__u64 seen; // ns since boot, once in a second
};

#define FLOW_REPLIED 1	   // the endpoint has answered
#define FLOW_ESTABLISHED 2 // and the client the answer: TCP; or they still speak a second later: UDP
#define FLOW_FIN 4	   // of the client
#define FLOW_FIN_BACK 8	   // of the endpoint
#define FLOW_FINS (FLOW_FIN | FLOW_FIN_BACK)
#define FLOW_RESET 16 // by the last packet

struct fragment_key {
	struct addr src, dst;
	__u32 id;
	__u8 proto;
	__u8 step;
	__u16 pad;
};

struct ports {
	__be16 src, dst;
	__u32 pad;
	__u64 seen; // ns since boot
};

// What a socket asked for, and whom it speaks to instead.
struct peer {
	struct addr asked, addr;
	__be16 asked_port, port;
	__u32 node; // 1: the socket is in the node's own namespace
};

// What is counted of a frontend: by packets that no entry is for. All processors count in one place: one for
// each the kernel allocates with the first packet of a frontend, which took 8 µs more by it.
struct tally {
	__u64 connections, refused, dropped;
};

// What a counter counts. ../counts.go has the same.
enum count {
	COUNT_NEW,	   // connections made
	COUNT_TAKEN_PORT,  // of these, whose client got another source port
	COUNT_UNKNOWN_TCP, // packets that are established by their looks, and without an entry: passed on
	// From here on why a packet goes no further: the first two are answered by a refusal, the
	// others are dropped.
	COUNT_REFUSED,		// as the route says: it has no endpoints
	COUNT_REFUSED_REST,	// a ClusterIP has no such port
	COUNT_NOT_ANSWERED,	// to be refused, but of a kind that is answered by nobody
	COUNT_REFUSAL_FAILED,	// to be refused, but there is no answer to it: a SYN with data
	COUNT_REFUSAL_LIMITED,	// to be refused, but too many were just now
	COUNT_SOURCE_RANGE,	// the client is in none of the frontend's source ranges
	COUNT_POLICY,		// as the route says: its policy leaves no endpoint
	COUNT_NO_SERVICE,	// to one of the service addresses that no Service has
	COUNT_UNTRANSLATED,	// would leave the node with a Service's address
	COUNT_NO_MASQUERADE,	// the node has no address to masquerade with
	COUNT_NO_SNAT_PORT,	// no port left to masquerade with
	COUNT_NO_ENTRY,		// a connection's entries could not be made
	COUNT_NO_SLOT,		// the list had no such endpoint, three times over
	COUNT_FRAGMENT,		// a later fragment without its first one
	COUNT_MALFORMED,	// for a Service, but too short to be translated, or with unknown headers
	COUNT_NOT_WRITTEN,	// it could not be changed
	COUNTERS
};

// So many refusals a second, of TCP and by ICMP, for each processor, and as many at once after a
// second without. It is what Linux has for the ICMP messages of a whole host
// (net.ipv4.icmp_msgs_per_sec, ip-sysctl.rst: 1000); of these it sends only 50 at once
// (icmp_msgs_burst) and one a second to a host (icmp_ratelimit), which would leave a client that opens
// many connections to a Service without endpoints in doubt. An answer is hardly larger than what it
// answers.
#define REFUSALS 1000

#define MAX_COUNTERS 64 // room for more: a map of another size is another map

// A packet that goes no further, and why.
struct sample {
	__u64 at; // ns since boot
	struct flow_key t;
	__u32 device;
	enum count why;
};

// Of each reason so many samples a second, for each processor, and as many at once.
#define SAMPLES 10
#define SAMPLE_BYTES (1 << 16)

// A function that the verifier looks at by itself, once, whoever calls it. Its pointers may be NULL
// as far as the verifier knows, and before Linux 6.2 a map takes what they point to for no key and
// no value: it is copied first.
#define SEPARATE __attribute__((noinline))

// Without CAP_PERFMON the verifier follows mispredicted branches too, and a loop has no end there.
#define UNROLLED _Pragma("clang loop unroll(full)")

#define MAP(NAME, TYPE, KEY, VALUE, MAX, FLAGS)  \
	struct {                                 \
		__uint(type, TYPE);              \
		__type(key, KEY);                \
		__type(value, VALUE);            \
		__uint(max_entries, MAX);        \
		__uint(map_flags, FLAGS);        \
		__uint(pinning, LIBBPF_PIN_BY_NAME); \
	} NAME SEC(".maps")

// The loader sets the sizes of those with 1.
MAP(plumb_config, BPF_MAP_TYPE_ARRAY, __u32, struct config, 1, 0);
MAP(plumb_devices, BPF_MAP_TYPE_HASH, __u32, struct device, 1, BPF_F_NO_PREALLOC);
MAP(plumb_networks, BPF_MAP_TYPE_LPM_TRIE, struct network_key, __u32, 1, BPF_F_NO_PREALLOC);
MAP(plumb_addrs, BPF_MAP_TYPE_HASH, struct addr, __u32, 1, BPF_F_NO_PREALLOC);
MAP(plumb_fronts, BPF_MAP_TYPE_HASH, struct frontend_key, struct frontend, 1, BPF_F_NO_PREALLOC);
MAP(plumb_slots, BPF_MAP_TYPE_HASH, struct slot_key, struct endpoint, 1, BPF_F_NO_PREALLOC);
MAP(plumb_members, BPF_MAP_TYPE_HASH, struct member_key, __u32, 1, BPF_F_NO_PREALLOC);
MAP(plumb_sources, BPF_MAP_TYPE_LPM_TRIE, struct source_key, __u32, 1, BPF_F_NO_PREALLOC);
MAP(plumb_affinity, BPF_MAP_TYPE_LRU_HASH, struct affinity_key, struct affinity, 1, 0);
MAP(plumb_flows, BPF_MAP_TYPE_LRU_HASH, struct flow_key, struct flow, 1, 0);
MAP(plumb_frags, BPF_MAP_TYPE_LRU_HASH, struct fragment_key, struct ports, 1, 0);
MAP(plumb_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, MAX_COUNTERS, 0);
MAP(plumb_tallies, BPF_MAP_TYPE_HASH, struct frontend_key, struct tally, 1, BPF_F_NO_PREALLOC);

// Of sockets that are connected; an entry goes with its socket.
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, int);
	__type(value, struct peer);
} plumb_peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SAMPLE_BYTES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(value, struct sample);
} plumb_samples SEC(".maps");

static __always_inline void count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&plumb_counts, &what);
	if (n)
		*n += 1;
}

// add counts in a place that is all processors'.
static __always_inline void add(__u64 *n, __u64 more)
{
	__sync_fetch_and_add(n, more);
}

// tally is what is counted of a frontend. Who counts first makes it.
static __always_inline struct tally *tally(const struct frontend_key *k)
{
	struct tally none = {}, *t = bpf_map_lookup_elem(&plumb_tallies, k);
	if (t)
		return t;
	bpf_map_update_elem(&plumb_tallies, k, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&plumb_tallies, k);
}

static __always_inline int same(const struct addr *a, const struct addr *b)
{
	return !((a->w[0] ^ b->w[0]) | (a->w[1] ^ b->w[1]) | (a->w[2] ^ b->w[2]) | (a->w[3] ^ b->w[3]));
}

// mask is all ones or none, and the compiler does not know which.
static __always_inline __u32 mask_of(int all)
{
	__u32 mask = all ? ~0u : 0;
	asm volatile("" : "+r"(mask));
	return mask;
}

// pick is one of two addresses. Without CAP_PERFMON the verifier lets no pointer be one of two
// places, which is what a compiler makes of a plain choice.
static __always_inline struct addr pick(int first, const struct addr *a, const struct addr *b)
{
	__u32 mask = mask_of(first);
	return (struct addr){{
		(a->w[0] & mask) | (b->w[0] & ~mask),
		(a->w[1] & mask) | (b->w[1] & ~mask),
		(a->w[2] & mask) | (b->w[2] & ~mask),
		(a->w[3] & mask) | (b->w[3] & ~mask),
	}};
}

// either is pick of ports.
static __always_inline __be16 either(int first, __be16 a, __be16 b)
{
	__u32 mask = mask_of(first);
	return (a & mask) | (b & ~mask);
}
