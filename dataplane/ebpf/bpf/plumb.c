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
SEPARATE int note_ports(const struct packet *p)
{
	if (!p)
		return -1;
	struct fragment_key k;
	struct ports ports = {.src = p->t.sport, .dst = p->t.dport};
	fragment_key(&k, p);
	return bpf_map_update_elem(&plumb_frags, &k, &ports, BPF_ANY);
}

// apply translates a packet of a connection that is known.
static __always_inline int apply(struct __sk_buff *skb, const struct packet *p, const struct change *c)
{
	if (p->first)
		note_ports(p);
	return translate(skb, p, c) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

static __always_inline int known(struct __sk_buff *skb, const struct packet *p, struct flow *f, __u64 now)
{
	struct change c = {.addr = f->addr, .port = f->port, .other = f->other};
	touch(p, f, now);
	return apply(skb, p, &c);
}

// is_stale tells whether the endpoint of an entry F serves its frontend no more. It is asked for
// UDP, for whose connections nothing says when they end.
static __always_inline int is_stale(const struct packet *p, const struct flow *f)
{
	struct frontend *fr = NULL;
	switch (find(p, class_of(&p->t.dst), &fr)) {
	case FRONTEND:
		return fr && !serves(fr, &p->t.src, &f->addr, f->port);
	}
	return 1;
}

// later_fragment has no ports of its own.
SEPARATE int later_fragment(struct __sk_buff *skb, struct packet *p, __u64 now)
{
	if (!p)
		return TC_ACT_UNSPEC;
	struct fragment_key k;
	fragment_key(&k, p);
	struct ports *ports = bpf_map_lookup_elem(&plumb_frags, &k);
	if (ports) {
		p->t.sport = ports->src;
		p->t.dport = ports->dst;
		struct flow *f = bpf_map_lookup_elem(&plumb_flows, &p->t);
		if (f && alive(f, p->t.proto, now)) {
			struct change c = {.addr = f->addr, .port = f->port, .other = f->other};
			return translate(skb, p, &c) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
		}
		return TC_ACT_UNSPEC;
	}
	if (class_of(&p->t.dst) & (ADDRESS_CLUSTER_IP | ADDRESS_EXTERNAL)) {
		count(COUNT_FRAGMENT);
		return TC_ACT_SHOT;
	}
	return TC_ACT_UNSPEC;
}

static __always_inline int drop(void)
{
	count(COUNT_DROPPED);
	return TC_ACT_SHOT;
}

// beginning is a packet that no entry is for.
SEPARATE int beginning(struct __sk_buff *skb, const struct packet *p, __u64 now)
{
	if (!p)
		return TC_ACT_UNSPEC;
	struct plan want = {};
	struct change c = {};
	__u32 class = class_of(&p->t.dst);
	if (!class && !unallocated(&p->t.dst))
		return TC_ACT_UNSPEC;
	if (p->cut || p->unknown) {
		count(COUNT_MALFORMED);
		return class & (ADDRESS_CLUSTER_IP | ADDRESS_EXTERNAL) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
	}
	if (is_icmp_error(p))
		return TC_ACT_UNSPEC;
	if (p->first)
		note_ports(p);
	if (p->t.proto == IPPROTO_TCP && (p->flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) != TCP_SYN) {
		struct frontend *f = NULL;
		if (find(p, class, &f) == FRONTEND)
			count(COUNT_UNKNOWN_TCP);
		return TC_ACT_UNSPEC;
	}
	int action = decide(skb, p, &want, now);
	if (action == -2) // a list that was taken away meanwhile has a successor
		action = decide(skb, p, &want, now);
	if (action == -2)
		action = decide(skb, p, &want, now);
	switch (action) {
	case ACTION_FORWARD:
		break;
	case ACTION_REJECT:
		return refuse(skb, p);
	case -1:
		return TC_ACT_UNSPEC;
	default:
		return drop();
	}
	int why = begin(p, &want, &c, now);
	if (why >= 0) {
		count(why);
		return TC_ACT_SHOT;
	}
	return translate(skb, p, &c) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

SEC("tc")
int plumb_ingress(struct __sk_buff *skb)
{
	struct packet p = {};
	if (parse(skb, &p, INGRESS))
		return TC_ACT_UNSPEC;
	__u64 now = bpf_ktime_get_ns();
	if (p.later)
		return later_fragment(skb, &p, now);
	if (is_icmp_error(&p))
		return p.v6 ? icmp_error6(skb, &p, now) : icmp_error4(skb, &p, now);
	if (has_ports(p.t.proto) && !p.cut && !p.unknown) {
		struct flow *f = bpf_map_lookup_elem(&plumb_flows, &p.t);
		int over = f && !alive(f, p.t.proto, now);
		if (f && !f->answer && p.t.proto == IPPROTO_TCP)
			over |= (p.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN && f->state & (FLOW_FINS | FLOW_RESET);
		else if (f && !f->answer && !over)
			over = is_stale(&p, f);
		if (f && !over)
			return known(skb, &p, f, now);
		if (f && !f->answer) {
			struct flow old = *f;
			forget(&p.t, &old);
		}
	}
	return beginning(skb, &p, now);
}

// untranslated stops what would leave the node with a Service's address: nobody out there has it.
SEPARATE int untranslated(const struct packet *p, __u32 class)
{
	if (!p)
		return TC_ACT_UNSPEC;
	struct frontend *f = NULL;
	int what = find(p, class, &f);
	if (what != FRONTEND && what != REST)
		return TC_ACT_UNSPEC;
	// An endpoint may have such an address.
	struct flow_key answer = {.src = p->t.dst, .dst = p->t.src, .sport = p->t.dport, .dport = p->t.sport, .proto = p->t.proto, .step = EGRESS};
	if (bpf_map_lookup_elem(&plumb_flows, &answer))
		return TC_ACT_UNSPEC;
	count(COUNT_UNTRANSLATED);
	return TC_ACT_SHOT;
}

SEC("tc")
int plumb_egress(struct __sk_buff *skb)
{
	struct packet p = {};
	if (parse(skb, &p, EGRESS))
		return TC_ACT_UNSPEC;
	__u64 now = bpf_ktime_get_ns();
	if (p.later)
		return later_fragment(skb, &p, now);
	if (is_icmp_error(&p))
		return p.v6 ? icmp_error6(skb, &p, now) : icmp_error4(skb, &p, now);
	if (has_ports(p.t.proto) && !p.cut && !p.unknown) {
		struct flow *f = bpf_map_lookup_elem(&plumb_flows, &p.t);
		if (f && alive(f, p.t.proto, now))
			return known(skb, &p, f, now);
	}
	__u32 class = class_of(&p.t.dst);
	if (!(class & (ADDRESS_CLUSTER_IP | ADDRESS_EXTERNAL)))
		return TC_ACT_UNSPEC;
	return untranslated(&p, class);
}
