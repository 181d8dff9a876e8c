// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// ICMP errors: they quote a packet as it was where something befell it, and go to who sent it. The
// quoted packet turned round is one that an entry of this step translates; the error is
// translated the same way, outside and, with source and destination swapped, inside.
#pragma once

#include "flow.h"

#define NO_ENTRY -3    // an error of a packet that is not translated
#define NOT_WRITTEN -4 // it is changed in part

struct quoted4 {
	struct iphdr ip;
	__be16 src, dst, length;
	__sum16 check; // of UDP; part of TCP's sequence number
};

struct quoted6 {
	struct ipv6hdr ip;
	__be16 src, dst, length;
	__sum16 check;
};

static __always_inline __u16 folded(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

// updated is a checksum after a change that a difference is known of.
static __always_inline __sum16 updated(__sum16 check, __s64 diff)
{
	return ~folded((__u16)~check + (__u64)(__u32)diff);
}

// outer changes the address of the error itself, and its checksum by what changed inside.
static __always_inline int outer(struct __sk_buff *skb, const struct packet *p, __u32 l2, const struct addr *now, int is, __s64 inside)
{
	int source = p->t.step == EGRESS;
	struct addr old = pick(source, &p->t.src, &p->t.dst);
	__u32 sum = l2 + p->l4 + offsetof(struct icmp_header, checksum);
	if (inside && bpf_l4_csum_replace(skb, sum, 0, inside, 0))
		return -1;
	if (!is)
		return 0;
	if (p->v6) {
		__s64 diff = bpf_csum_diff((__be32 *)&old, sizeof(old), (__be32 *)now, sizeof(*now), 0);
		if (bpf_l4_csum_replace(skb, sum, 0, diff, BPF_F_PSEUDO_HDR))
			return -1;
	}
	return write_address(skb, p, l2, &old, now, source);
}

// translation finds the entry for a quoted packet.
static __always_inline struct flow *translation(const struct packet *p, struct flow_key *k, __u64 now)
{
	k->step = p->t.step;
	struct flow *f = bpf_map_lookup_elem(&plumb_flows, k);
	return f && alive(f, k->proto, now) ? f : NULL;
}

SEPARATE int icmp_error4(struct __sk_buff *skb, const struct packet *p, __u64 now)
{
	if (!p)
		return TC_ACT_UNSPEC;
	__u32 l2 = p->l2, at = l2 + p->l4 + sizeof(struct icmp_header);
	struct quoted4 q, was;
	if (bpf_skb_load_bytes(skb, at, &q, sizeof(q.ip)) || q.ip.version != 4 || q.ip.ihl < 5 || q.ip.frag_off & bpf_htons(IP_OFFSET))
		return NO_ENTRY;
	__u32 ports_at = at + q.ip.ihl * 4; // behind options
	if (bpf_skb_load_bytes(skb, ports_at, &q.src, sizeof(q) - sizeof(q.ip)))
		return NO_ENTRY;
	struct flow_key k = {.sport = q.dst, .dport = q.src, .proto = q.ip.protocol};
	mapped(&k.src, q.ip.daddr);
	mapped(&k.dst, q.ip.saddr);
	struct flow *f = translation(p, &k, now);
	if (!f)
		return NO_ENTRY;
	was = q;
	int ingress = p->t.step == INGRESS;
	__u32 mask = mask_of(ingress);
	struct addr now_at = f->addr;
	q.ip.saddr = (now_at.w[3] & mask) | (q.ip.saddr & ~mask);
	q.ip.daddr = (q.ip.daddr & mask) | (now_at.w[3] & ~mask);
	q.src = either(ingress, f->port, f->other);
	q.dst = either(ingress, f->other, f->port);
	__s64 diff = bpf_csum_diff(&was.ip.saddr, 8, &q.ip.saddr, 8, 0);
	q.ip.check = updated(q.ip.check, diff);
	if (k.proto == IPPROTO_UDP && q.check) {
		__be16 ports[4] = {was.src, was.dst, q.src, q.dst};
		q.check = updated(q.check, bpf_csum_diff((__be32 *)ports, 4, (__be32 *)(ports + 2), 4, diff));
		if (!q.check)
			q.check = 0xffff;
	}
	int to = same(&p->t.dst, &k.dst), from = same(&p->t.src, &k.src), is = (to & mask) | (from & ~mask);
	diff = bpf_csum_diff((__be32 *)&was, sizeof(was), (__be32 *)&q, sizeof(q), 0);
	if (bpf_skb_store_bytes(skb, at, &q, sizeof(q.ip), 0) || bpf_skb_store_bytes(skb, ports_at, &q.src, sizeof(q) - sizeof(q.ip), 0) || outer(skb, p, l2, &now_at, is, diff))
		return NOT_WRITTEN;
	return TC_ACT_UNSPEC;
}

SEPARATE int icmp_error6(struct __sk_buff *skb, const struct packet *p, __u64 now)
{
	if (!p)
		return TC_ACT_UNSPEC;
	__u32 l2 = p->l2, at = l2 + p->l4 + sizeof(struct icmp_header);
	struct quoted6 q, was;
	if (bpf_skb_load_bytes(skb, at, &q, sizeof(q.ip)) || q.ip.version != 6)
		return NO_ENTRY;
	__u32 ports_at = at + sizeof(q.ip);
	__u8 proto = q.ip.nexthdr;
	if (proto == IPPROTO_FRAGMENT) { // the first, which has the ports: it was too big
		struct fragment_header h;
		if (bpf_skb_load_bytes(skb, ports_at, &h, sizeof(h)) || h.offset & bpf_htons(0xfff8))
			return NO_ENTRY;
		ports_at += sizeof(h);
		proto = h.next;
	}
	if (bpf_skb_load_bytes(skb, ports_at, &q.src, sizeof(q) - sizeof(q.ip)))
		return NO_ENTRY;
	struct flow_key k = {.sport = q.dst, .dport = q.src, .proto = proto};
	__builtin_memcpy(&k.src, &q.ip.daddr, sizeof(k.src));
	__builtin_memcpy(&k.dst, &q.ip.saddr, sizeof(k.dst));
	struct flow *f = translation(p, &k, now);
	if (!f)
		return NO_ENTRY;
	was = q;
	int ingress = p->t.step == INGRESS;
	__u32 mask = mask_of(ingress);
	struct addr now_at = f->addr, src = pick(ingress, &now_at, &k.dst), dst = pick(ingress, &k.src, &now_at);
	__builtin_memcpy(&q.ip.saddr, &src, sizeof(q.ip.saddr));
	__builtin_memcpy(&q.ip.daddr, &dst, sizeof(q.ip.daddr));
	q.src = either(ingress, f->port, f->other);
	q.dst = either(ingress, f->other, f->port);
	if (k.proto == IPPROTO_UDP && q.check) {
		// Addresses and ports stand together.
		__s64 diff = bpf_csum_diff((__be32 *)&was.ip.saddr, 36, (__be32 *)&q.ip.saddr, 36, 0);
		q.check = updated(q.check, diff);
		if (!q.check)
			q.check = 0xffff;
	}
	int to = same(&p->t.dst, &k.dst), from = same(&p->t.src, &k.src), is = (to & mask) | (from & ~mask);
	__s64 diff = bpf_csum_diff((__be32 *)&was, sizeof(was), (__be32 *)&q, sizeof(q), 0);
	if (bpf_skb_store_bytes(skb, at, &q, sizeof(q.ip), 0) || bpf_skb_store_bytes(skb, ports_at, &q.src, sizeof(q) - sizeof(q.ip), 0) || outer(skb, p, l2, &now_at, is, diff))
		return NOT_WRITTEN;
	return TC_ACT_UNSPEC;
}
