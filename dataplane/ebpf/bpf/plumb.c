// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//go:build ignore

// The two programs of every device but lo. See ../doc.go.

#include <linux/pkt_cls.h>
#include "service.h"
#include "refuse.h"
#include "icmp.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static __always_inline void fragment_key(struct fragment_key *k, const struct packet *p)
{
	k->src = p->t.src;
	k->dst = p->t.dst;
	k->id = p->id;
	k->proto = p->t.proto;
	k->step = p->t.step;
	k->pad = 0;
}

// note_ports lets the fragments that come after this one be told.
SEPARATE int note_ports(const struct packet *p, __u64 now)
{
	if (!p)
		return -1;
	struct fragment_key k;
	struct ports ports = {.src = p->t.sport, .dst = p->t.dport, .seen = now};
	fragment_key(&k, p);
	return bpf_map_update_elem(&plumb_frags, &k, &ports, BPF_ANY);
}

// known translates a packet of a connection.
static __always_inline int known(struct __sk_buff *skb, const struct packet *p, struct flow *f, __u64 now)
{
	struct change c = {.addr = f->addr, .port = f->port, .other = f->other};
	touch(p, f, now);
	if (p->first)
		note_ports(p, now);
	return translate(skb, p, &c) ? stop(p, COUNT_NOT_WRITTEN, now) : TC_ACT_UNSPEC;
}

// is_syn tells whether a packet begins a TCP connection.
static __always_inline int is_syn(const struct packet *p)
{
	return p->t.proto == IPPROTO_TCP && (p->flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
}

// is_stale tells whether the endpoint of an entry F serves its frontend no more. It is asked for
// UDP, for whose connections nothing says when they end, and for a SYN, which has nothing to lose.
static __always_inline int is_stale(const struct packet *p, const struct flow *f)
{
	struct frontend *fr = NULL;
	struct frontend_key k;
	switch (find(p, class_of(&p->t.dst), 1, &k, &fr)) {
	case FRONTEND:
		return fr && !serves(fr, &p->t.src, &f->addr, f->port);
	}
	return 1;
}

// is_stale_still asks again: an entry that was just replaced may have read as another's (still).
SEPARATE int is_stale_still(const struct packet *p, const struct flow *f)
{
	return !p || !f || is_stale(p, f);
}

// spoken_to tells whether a packet is of a socket of the node's that was led to this endpoint.
static __always_inline int spoken_to(struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	struct peer *to = bpf_sk_storage_get(&plumb_peers, sk, NULL, 0);
	return to && to->port == p->t.dport && same(&to->addr, &p->t.dst);
}

// untranslated stops what would leave the node with a Service's address: nobody out there has it.
SEPARATE int untranslated(struct __sk_buff *skb, const struct packet *p, __u32 class, __u64 now)
{
	if (!p)
		return TC_ACT_UNSPEC;
	struct frontend *f = NULL;
	struct frontend_key k;
	if (find(p, class, 0, &k, &f) == NOTHING)
		return TC_ACT_UNSPEC;
	// An endpoint may have such an address.
	struct flow_key answer = {.src = p->t.dst, .dst = p->t.src, .sport = p->t.dport, .dport = p->t.sport, .proto = p->t.proto, .step = EGRESS};
	if (bpf_map_lookup_elem(&plumb_flows, &answer) || spoken_to(skb, p))
		return TC_ACT_UNSPEC;
	return stop(p, COUNT_UNTRANSLATED, now);
}

#define FRAGMENTS_FOR (30 * SECOND) // as long as the kernel waits for the last one

// without_first is a later fragment of which no first one was seen: it is dropped where that must
// have been for a Service.
static __always_inline int without_first(const struct packet *p, __u32 class, __u64 now)
{
	int external = class & ADDRESS_EXTERNAL && !(class & ADDRESS_NODE) && p->t.step == INGRESS;
	if (!external && !(class & ADDRESS_CLUSTER_IP) && (class || !unallocated(&p->t.dst)))
		return TC_ACT_UNSPEC;
	return stop(p, COUNT_FRAGMENT, now);
}

// later_fragment has no ports of its own, and fares as its first one did.
SEPARATE int later_fragment(struct __sk_buff *skb, struct packet *p, __u64 now)
{
	if (!p)
		return TC_ACT_UNSPEC;
	struct fragment_key k;
	fragment_key(&k, p);
	__u32 class = class_of(&p->t.dst);
	struct ports *ports = bpf_map_lookup_elem(&plumb_frags, &k);
	if (!ports || since(ports->seen, now) >= FRAGMENTS_FOR)
		return without_first(p, class, now);
	p->t.sport = ports->src;
	p->t.dport = ports->dst;
	struct flow_key key = p->t;
	struct flow *f = bpf_map_lookup_elem(&plumb_flows, &key);
	if (f && alive(f, p->t.proto, now)) {
		struct change c = {.addr = f->addr, .port = f->port, .other = f->other};
		return translate(skb, p, &c) ? stop(p, COUNT_NOT_WRITTEN, now) : TC_ACT_UNSPEC;
	}
	// Of TCP the first one passed at ingress, for conntrack.
	if (p->t.proto == IPPROTO_TCP && p->t.step == INGRESS)
		return TC_ACT_UNSPEC;
	return untranslated(skb, p, class, now);
}

static __always_inline int icmp_error(struct __sk_buff *skb, const struct packet *p, __u64 now)
{
	int done = p->v6 ? icmp_error6(skb, p, now) : icmp_error4(skb, p, now);
	return done == NOT_WRITTEN ? stop(p, COUNT_NOT_WRITTEN, now) : done;
}

// direct is a packet that is for no Service. A SYN ends what is left of a connection by the same ports to a
// Service whose endpoint this is, and which has ended: its answers would be taken for that one's. S stays, for
// its port rests.
SEPARATE int direct(const struct packet *p)
{
	if (!p || !is_syn(p))
		return TC_ACT_UNSPEC;
	struct flow_key r = {.src = p->t.dst, .dst = p->t.src, .sport = p->t.dport, .dport = p->t.sport, .proto = p->t.proto, .step = EGRESS};
	struct flow *f = bpf_map_lookup_elem(&plumb_flows, &r);
	if (!f || !f->answer || !closed(f))
		return TC_ACT_UNSPEC;
	take(&r, f); // F, or a late packet of its would make R anew
	bpf_map_delete_elem(&plumb_flows, &r);
	struct flow_key m = p->t;
	m.step = EGRESS;
	f = bpf_map_lookup_elem(&plumb_flows, &m);
	if (f && closed(f))
		bpf_map_delete_elem(&plumb_flows, &m);
	return TC_ACT_UNSPEC;
}

// beginning is a packet that no entry is for.
SEPARATE int beginning(struct __sk_buff *skb, const struct packet *p, __u64 now)
{
	if (!p)
		return TC_ACT_UNSPEC;
	__u32 class = class_of(&p->t.dst);
	if (!class && !unallocated(&p->t.dst))
		return direct(p);
	if (p->cut || p->unknown)
		return !class || class & (ADDRESS_CLUSTER_IP | ADDRESS_EXTERNAL) ? stop(p, COUNT_MALFORMED, now) : TC_ACT_UNSPEC;
	if (is_icmp_error(p))
		return TC_ACT_UNSPEC;
	struct scratch *w = scratch();
	if (!w)
		return stop(p, COUNT_NO_ENTRY, now);
	struct plan *want = &w->want;
	__builtin_memset(want, 0, sizeof(*want));
	if (p->first)
		note_ports(p, now);
	if (p->t.proto == IPPROTO_TCP && !is_syn(p)) {
		struct frontend *f = NULL;
		if (find(p, class, 0, &want->front, &f) == FRONTEND)
			count(COUNT_UNKNOWN_TCP);
		return TC_ACT_UNSPEC;
	}
	int done, why = decide(skb, p, want, now);
	if (why == NO_SLOT)
		why = decide(skb, p, want, now);
	if (why == NO_SLOT)
		why = decide(skb, p, want, now);
	if (!why && want->masqueraded && masquerade_address(skb, p, &want->to, &want->masquerade))
		why = COUNT_NO_MASQUERADE;
	switch (why) {
	case NOT_OURS:
		return direct(p);
	case COUNT_REFUSED:
	case COUNT_REFUSED_REST:
		done = refuse(skb, p, why, now);
		tally_stopped(want, done == TC_ACT_REDIRECT);
		return done;
	case NO_SLOT:
		why = COUNT_NO_SLOT;
		break;
	case 0:
		why = begin(p, want, &w->change, now);
		if (why < 0)
			why = translate(skb, p, &w->change) ? COUNT_NOT_WRITTEN : 0;
	}
	if (!why)
		return TC_ACT_UNSPEC;
	tally_stopped(want, 0);
	return stop(p, why, now);
}

SEC("tc")
int plumb_ingress(struct __sk_buff *skb)
{
	struct packet p = {};
	if (parse(skb, &p, INGRESS))
		return TC_ACT_UNSPEC;
	__u64 now = bpf_ktime_get_coarse_ns();
	if (p.later)
		return later_fragment(skb, &p, now);
	if (is_icmp_error(&p)) {
		int done = icmp_error(skb, &p, now);
		return done == NO_ENTRY ? TC_ACT_UNSPEC : done;
	}
	if (has_ports(p.t.proto) && !p.cut && !p.unknown) {
		struct flow *f = bpf_map_lookup_elem(&plumb_flows, &p.t);
		int over = f && !alive(f, p.t.proto, now);
		if (f && !f->answer && !over) {
			if (is_syn(&p))
				over = f->state & (FLOW_FINS | FLOW_RESET) || (is_stale(&p, f) && is_stale_still(&p, f));
			else if (p.t.proto == IPPROTO_UDP)
				over = is_stale(&p, f) && is_stale_still(&p, f);
		}
		if (f && !over)
			return known(skb, &p, f, now);
		if (f && !f->answer)
			forget(&p.t, f);
	}
	return beginning(skb, &p, now);
}

SEC("tc")
int plumb_egress(struct __sk_buff *skb)
{
	struct packet p = {};
	if (parse(skb, &p, EGRESS))
		return TC_ACT_UNSPEC;
	__u64 now = bpf_ktime_get_coarse_ns();
	if (p.later)
		return later_fragment(skb, &p, now);
	if (is_icmp_error(&p)) {
		int done = icmp_error(skb, &p, now);
		if (done != NO_ENTRY)
			return done;
	}
	if (has_ports(p.t.proto) && !p.cut && !p.unknown) {
		struct flow *f = bpf_map_lookup_elem(&plumb_flows, &p.t);
		if (f && alive(f, p.t.proto, now))
			return known(skb, &p, f, now);
	}
	__u32 class = class_of(&p.t.dst);
	if (class ? !(class & (ADDRESS_CLUSTER_IP | ADDRESS_EXTERNAL)) : !unallocated(&p.t.dst))
		return TC_ACT_UNSPEC;
	if (p.first)
		note_ports(&p, now);
	return untranslated(skb, &p, class, now);
}
