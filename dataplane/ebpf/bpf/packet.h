// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a packet is: addresses, ports, and where they stand. All is read by helpers that check
// bounds, relative to the network header: nothing depends on how the kernel has laid it out.
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stddef.h>
#include "choose.h"

// Of linux/icmp.h and linux/icmpv6.h, which want libc's headers.
struct icmp_header {
	__u8 type, code;
	__sum16 checksum;
	__be32 rest;
};

#define ICMP_UNREACHABLE 3
#define ICMP_SOURCE_QUENCH 4
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
#define ICMP_CODE_PORT 3
#define ICMPV6_UNREACHABLE 1
#define ICMPV6_PARAMETER_PROBLEM 4
#define ICMPV6_ECHO 128
#define ICMPV6_CODE_PORT 4

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16

#define IP_MF 0x2000
#define IP_OFFSET 0x1fff

struct packet {
	struct flow_key t;
	__u32 id;      // of a fragment
	__u32 device;
	__u16 l4;      // where the transport header is, from the network header
	__u16 length;  // of network header and all that follows
	__u8 l2;       // bytes before the network header
	__u8 v6;
	__u8 flags;    // of TCP
	__u8 type;     // of ICMP
	__u8 first;    // a first fragment, with ports
	__u8 later;    // a fragment without
	__u8 cut;      // too short for its own headers, or for what it says
	__u8 unknown;  // something before the transport header that is not known here
	__u8 unsummed; // UDP without a checksum
};

struct fragment_header {
	__u8 next, reserved;
	__be16 offset;
	__be32 id;
};

static __always_inline int at_network(struct __sk_buff *skb, __u32 off, void *to, __u32 n)
{
	return bpf_skb_load_bytes_relative(skb, off, to, n, BPF_HDR_START_NET);
}

static __always_inline int parse4(struct __sk_buff *skb, struct packet *p)
{
	struct iphdr ip;
	if (at_network(skb, 0, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return -1;
	mapped(&p->t.src, ip.saddr);
	mapped(&p->t.dst, ip.daddr);
	p->t.proto = ip.protocol;
	p->l4 = ip.ihl * 4;
	p->length = bpf_ntohs(ip.tot_len);
	__u16 frag = bpf_ntohs(ip.frag_off);
	p->later = (frag & IP_OFFSET) != 0;
	p->first = !p->later && (frag & IP_MF);
	p->id = ip.id;
	return 0;
}

// What may stand before the transport header; a chain that is longer, or ends too early, is unknown.
#define MAX_EXTENSIONS 6

static __always_inline int parse6(struct __sk_buff *skb, struct packet *p)
{
	struct ipv6hdr ip;
	if (at_network(skb, 0, &ip, sizeof(ip)) || ip.version != 6)
		return -1;
	__builtin_memcpy(&p->t.src, &ip.saddr, sizeof(p->t.src));
	__builtin_memcpy(&p->t.dst, &ip.daddr, sizeof(p->t.dst));
	if (is_v4(&p->t.src) || is_v4(&p->t.dst)) // it would be taken for a packet of IPv4
		return -1;
	p->v6 = 1;
	p->length = bpf_ntohs(ip.payload_len) + sizeof(ip);
	__u8 next = ip.nexthdr;
	__u32 off = sizeof(ip);
	UNROLLED
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		if (next == IPPROTO_FRAGMENT) {
			struct fragment_header fh;
			if (at_network(skb, off, &fh, sizeof(fh)))
				break;
			__u16 frag = bpf_ntohs(fh.offset);
			p->later = (frag & 0xfff8) != 0;
			p->first = !p->later && (frag & 1);
			p->id = fh.id;
			next = fh.next;
			off += sizeof(fh);
			if (p->later)
				break;
			continue;
		}
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS && next != IPPROTO_AH)
			break;
		__u8 head[2];
		if (at_network(skb, off, head, sizeof(head)))
			break;
		off += next == IPPROTO_AH ? (head[1] + 2) * 4 : (head[1] + 1) * 8;
		next = head[0];
	}
	p->unknown = next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS || next == IPPROTO_AH || next == IPPROTO_FRAGMENT;
	p->t.proto = next;
	p->l4 = off;
	return 0;
}

// Ports, and what else decides. A packet that is too short for them is cut.
static __always_inline void parse_transport(struct __sk_buff *skb, struct packet *p)
{
	struct {
		__be16 src, dst;
		__be32 seq, ack;
		__u8 offset, flags;
	} __attribute__((packed)) l4 = {};
	__u8 proto = p->t.proto;
	if (proto == IPPROTO_TCP) {
		p->cut = at_network(skb, p->l4, &l4, 14) != 0;
		p->flags = l4.flags;
	} else if (has_ports(proto) || proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6) {
		p->cut = at_network(skb, p->l4, &l4, 8) != 0;
	}
	if (has_ports(proto)) {
		p->t.sport = l4.src;
		p->t.dport = l4.dst;
		p->unsummed = proto == IPPROTO_UDP && !(l4.seq & bpf_htonl(0xffff)); // where TCP has this, UDP has its length and checksum
	} else if (proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6) {
		p->type = ((__u8 *)&l4)[0];
	}
}

#define PACKET_HOST 0
#define PACKET_OTHERHOST 3

// aimed tells whether a frame that comes in is for the node. One for a bridge is not for its port,
// by which it comes, but for the node.
static __always_inline int aimed(struct __sk_buff *skb, const struct device *d)
{
	__u16 to[ETH_ALEN / 2];
	const __u16 *mac = (const __u16 *)d->mac;
	if (skb->pkt_type == PACKET_HOST)
		return 1;
	if (skb->pkt_type != PACKET_OTHERHOST || d->l2 != ETH_HLEN || bpf_skb_load_bytes(skb, 0, to, sizeof(to)))
		return 0;
	return !((to[0] ^ mac[0]) | (to[1] ^ mac[1]) | (to[2] ^ mac[2]));
}

// parse is 0 for what can be looked at: a packet of a device of the node. The programs stay with a
// device that moves to another namespace, and there it is not known.
static __always_inline int parse(struct __sk_buff *skb, struct packet *p, __u8 step)
{
	int bad = -1;
	__u32 ifindex = skb->ifindex;
	struct device *d = bpf_map_lookup_elem(&plumb_devices, &ifindex);
	if (!d || (step == INGRESS && !aimed(skb, d)))
		return -1;
	p->l2 = d->l2;
	p->device = ifindex;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		bad = parse4(skb, p);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		bad = parse6(skb, p);
	if (bad)
		return bad;
	p->t.step = step;
	if (!p->later && !p->unknown)
		parse_transport(skb, p);
	p->cut |= p->l2 + p->length > skb->len;
	return 0;
}

static __always_inline int is_icmp(const struct packet *p)
{
	return p->t.proto == (p->v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
}

// may_be_refused: ICMP is answered by no error, for that could go on for ever, but for an echo; nor
// is what comes from nobody, or from many.
static __always_inline int may_be_refused(const struct packet *p)
{
	const struct addr *src = &p->t.src;
	if (is_icmp(p) && p->type != (p->v6 ? ICMPV6_ECHO : ICMP_ECHO))
		return 0;
	__u32 rest = src->w[0] | src->w[1] | src->w[2];
	__u8 first4 = bpf_ntohl(src->w[3]) >> 24, first6 = bpf_ntohl(src->w[0]) >> 24;
	return p->v6 ? first6 != 0xff && rest | src->w[3] : first4 != 0 && first4 < 224;
}

static __always_inline int is_icmp_error(const struct packet *p)
{
	if (!is_icmp(p) || p->later || p->cut)
		return 0;
	if (p->v6)
		return p->type >= ICMPV6_UNREACHABLE && p->type <= ICMPV6_PARAMETER_PROBLEM;
	return p->type == ICMP_UNREACHABLE || p->type == ICMP_SOURCE_QUENCH || p->type == ICMP_TIME_EXCEEDED || p->type == ICMP_PARAMETER_PROBLEM;
}
