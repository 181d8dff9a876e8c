// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Refusals: the packet itself becomes the answer and goes back by the device it came by.
#pragma once

#include "rewrite.h"
#include "stop.h"

#define TTL 64

// What makes an answer is negative if it cannot: the packet may be changed in part by then.

static __always_inline int turn_round(struct __sk_buff *skb, __u32 l2)
{
	__u8 mac[2 * ETH_ALEN], back[2 * ETH_ALEN];
	if (l2 == ETH_HLEN) {
		if (bpf_skb_load_bytes(skb, 0, mac, sizeof(mac)))
			return -1;
		__builtin_memcpy(back, mac + ETH_ALEN, ETH_ALEN);
		__builtin_memcpy(back + ETH_ALEN, mac, ETH_ALEN);
		if (bpf_skb_store_bytes(skb, 0, back, sizeof(back), 0))
			return -1;
	}
	return bpf_redirect(skb->ifindex, 0);
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

// write_network writes the header of an answer from the packet's destination.
static __always_inline int write_network(struct __sk_buff *skb, const struct packet *p, __u32 l2, __u8 proto, __u16 payload)
{
	if (p->v6) {
		struct ipv6hdr ip = {.version = 6, .payload_len = bpf_htons(payload), .nexthdr = proto, .hop_limit = TTL};
		__builtin_memcpy(&ip.saddr, &p->t.dst, sizeof(ip.saddr));
		__builtin_memcpy(&ip.daddr, &p->t.src, sizeof(ip.daddr));
		return bpf_skb_store_bytes(skb, l2, &ip, sizeof(ip), BPF_F_RECOMPUTE_CSUM);
	}
	struct iphdr ip = {
		.version = 4, .ihl = 5, .tot_len = bpf_htons(payload + sizeof(ip)), .frag_off = bpf_htons(0x4000), .ttl = TTL, .protocol = proto,
		.saddr = p->t.dst.w[3], .daddr = p->t.src.w[3],
	};
	ip.check = fold(bpf_csum_diff(NULL, 0, (__be32 *)&ip, sizeof(ip), 0));
	return bpf_skb_store_bytes(skb, l2, &ip, sizeof(ip), BPF_F_RECOMPUTE_CSUM);
}

// reset answers a SYN. Its checksum is that of the SYN with what differs: so it is right whether
// the device is to complete it or not. A SYN with data is dropped: what follows it has none.
SEPARATE int reset(struct __sk_buff *skb, const struct packet *p)
{
	if (!p)
		return -1;
	__u32 l2 = p->l2, l4 = l2 + p->l4, at = l4 + offsetof(struct tcphdr, check);
	struct tcphdr old, now = {};
	if (bpf_skb_load_bytes(skb, l4, &old, sizeof(old)))
		return -1;
	__u32 header = old.doff * 4;
	if (header < sizeof(old) || p->length != p->l4 + header)
		return -1;
	now.source = old.dest;
	now.dest = old.source;
	now.ack_seq = bpf_htonl(bpf_ntohl(old.seq) + 1);
	now.doff = sizeof(now) / 4;
	now.rst = 1;
	now.ack = 1;
	old.check = 0;
	__s64 diff = bpf_csum_diff((__be32 *)&old, sizeof(old), (__be32 *)&now, sizeof(now), 0);
	UNROLLED
	for (int i = 0; i < 10; i++) {
		__be32 option;
		if (sizeof(old) + 4 * i >= header)
			break;
		if (bpf_skb_load_bytes(skb, l4 + sizeof(old) + 4 * i, &option, 4))
			return -1;
		diff = bpf_csum_diff(&option, 4, NULL, 0, diff);
	}
	if (bpf_l4_csum_replace(skb, at, bpf_htonl(header), bpf_htonl(sizeof(now)), BPF_F_PSEUDO_HDR | 4) ||
	    bpf_l4_csum_replace(skb, at, 0, diff, 0) || bpf_skb_load_bytes(skb, at, &now.check, 2) ||
	    bpf_skb_store_bytes(skb, l4, &now, sizeof(now), 0) || bpf_skb_change_tail(skb, l4 + sizeof(now), 0) ||
	    write_network(skb, p, l2, IPPROTO_TCP, sizeof(now)))
		return -1;
	return turn_round(skb, l2);
}

#define QUOTE_WORDS 24 // the longest header of IPv4, and what is asked for of the transport's; most of IPv6

// unreachable answers with an ICMP port unreachable that quotes the packet's beginning.
SEPARATE int unreachable(struct __sk_buff *skb, const struct packet *p)
{
	if (!p)
		return -1;
	__u32 l2 = p->l2, quote = p->l4 + 32u;
	__u32 header = p->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	if (quote > p->length)
		quote = p->length;
	if (quote > QUOTE_WORDS * 4)
		quote = QUOTE_WORDS * 4;
	quote &= ~3u;
	if (quote < p->l4 + 8u || bpf_skb_change_tail(skb, l2 + quote, 0))
		return -1;
	if (bpf_skb_adjust_room(skb, header + sizeof(struct icmp_header), BPF_ADJ_ROOM_MAC, 0))
		return -1;
	struct icmp_header icmp = {.type = p->v6 ? ICMPV6_UNREACHABLE : ICMP_UNREACHABLE, .code = p->v6 ? ICMPV6_CODE_PORT : ICMP_CODE_PORT};
	__s64 sum = 0;
	if (p->v6) {
		__be32 rest[2] = {bpf_htonl(quote + sizeof(icmp)), bpf_htonl(IPPROTO_ICMPV6)};
		sum = bpf_csum_diff(NULL, 0, (__be32 *)&p->t.src, 16, sum);
		sum = bpf_csum_diff(NULL, 0, (__be32 *)&p->t.dst, 16, sum);
		sum = bpf_csum_diff(NULL, 0, rest, sizeof(rest), sum);
	}
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&icmp, sizeof(icmp), sum);
	UNROLLED
	for (__u32 i = 0; i < QUOTE_WORDS; i++) {
		__be32 word;
		if (4 * i >= quote)
			break;
		if (bpf_skb_load_bytes(skb, l2 + header + sizeof(icmp) + 4 * i, &word, 4))
			return -1;
		sum = bpf_csum_diff(NULL, 0, &word, 4, sum);
	}
	icmp.checksum = fold(sum);
	if (bpf_skb_store_bytes(skb, l2 + header, &icmp, sizeof(icmp), BPF_F_RECOMPUTE_CSUM) ||
	    write_network(skb, p, l2, p->v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, quote + sizeof(icmp)))
		return -1;
	return turn_round(skb, l2);
}

// refuse answers a packet, if it is of a kind that is answered.
static __always_inline int refuse(struct __sk_buff *skb, const struct packet *p, __u32 why, __u64 now)
{
	if (!may_be_refused(p))
		return stop(p, COUNT_NOT_ANSWERED, now);
	if (!allowed(DUE_REFUSALS, REFUSALS, now))
		return stop(p, COUNT_REFUSAL_LIMITED, now);
	// With options before TCP there is no answer to be made of the SYN.
	int plain = p->l4 == (p->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	int sent = p->t.proto == IPPROTO_TCP && plain ? reset(skb, p) : unreachable(skb, p);
	if (sent < 0)
		return stop(p, COUNT_REFUSAL_FAILED, now);
	note(p, why, now);
	return sent;
}
