// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Changing a packet with its checksums, whoever is to compute these: the helpers know about
// packets whose checksum the device will compute, or has.
#pragma once

#include "packet.h"

// A translation as the packet sees it: a new address and port for one side, a port for the other.
struct change {
	struct addr addr;
	__be16 port, other;
};

// write_port has what a device has summed up follow where no checksum makes up for the port.
static __always_inline int write_port(struct __sk_buff *skb, const struct packet *p, __u32 at, __u32 sum, __be16 old, __be16 now, __u64 flags)
{
	if (old == now)
		return 0;
	return bpf_l4_csum_replace(skb, sum, old, now, 2 | flags) || bpf_skb_store_bytes(skb, at, &now, 2, p->unsummed ? BPF_F_RECOMPUTE_CSUM : 0);
}

static __always_inline int write_address(struct __sk_buff *skb, const struct packet *p, __u32 l2, const struct addr *old, const struct addr *now, int source)
{
	if (!p->v6)
		return bpf_l3_csum_replace(skb, l2 + offsetof(struct iphdr, check), old->w[3], now->w[3], 4) ||
		       bpf_skb_store_bytes(skb, l2 + (source ? offsetof(struct iphdr, saddr) : offsetof(struct iphdr, daddr)), &now->w[3], 4, 0);
	// IPv6 has no checksum that makes up for the address in what a device has summed up.
	return bpf_skb_store_bytes(skb, l2 + (source ? offsetof(struct ipv6hdr, saddr) : offsetof(struct ipv6hdr, daddr)), now, sizeof(*now), BPF_F_RECOMPUTE_CSUM);
}

// translate changes the destination at ingress, the source at egress. It is not 0 if the packet
// cannot be sent on, being changed in part.
SEPARATE int translate(struct __sk_buff *skb, const struct packet *p, const struct change *c)
{
	if (!p || !c)
		return -1;
	__u32 l2 = p->l2, l4 = l2 + p->l4;
	int source = p->t.step == EGRESS;
	struct addr old = pick(source, &p->t.src, &p->t.dst);
	if (!p->later) {
		int udp = p->t.proto == IPPROTO_UDP;
		__u32 sum = l4 + (udp ? offsetof(struct udphdr, check) : offsetof(struct tcphdr, check));
		__u64 flags = udp ? BPF_F_MARK_MANGLED_0 : 0;
		__be16 port = either(source, p->t.sport, p->t.dport), other = either(source, p->t.dport, p->t.sport);
		int bad;
		if (p->v6) {
			__s64 diff = bpf_csum_diff((__be32 *)&old, sizeof(old), (__be32 *)&c->addr, sizeof(c->addr), 0);
			bad = diff < 0 || bpf_l4_csum_replace(skb, sum, 0, diff, BPF_F_PSEUDO_HDR | flags);
		} else {
			bad = bpf_l4_csum_replace(skb, sum, old.w[3], c->addr.w[3], BPF_F_PSEUDO_HDR | 4 | flags);
		}
		if (bad || write_port(skb, p, l4 + (source ? 0 : 2), sum, port, c->port, flags) || write_port(skb, p, l4 + (source ? 2 : 0), sum, other, c->other, flags))
			return -1;
	}
	return write_address(skb, p, l2, &old, &c->addr, source);
}
