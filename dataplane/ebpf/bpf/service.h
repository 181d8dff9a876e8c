// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What plan.Resolve says of a packet, from the maps.
#pragma once

#include "flow.h"

static __always_inline int find(const struct packet *p, __u32 class, int sure, struct frontend_key *k, struct frontend **out)
{
	return find_for(&p->t.dst, p->t.dport, p->t.proto, p->v6, class, sure, k, out);
}

// serves tells whether a frontend's connection may stay with an endpoint.
static __always_inline int serves(const struct frontend *f, const struct addr *client, const struct addr *a, __be16 port)
{
	if (!admits(f, client))
		return 0;
	return member(f->routes[ROUTE_OUTSIDE].list, a, port) || (f->flags & FRONTEND_HAS_INSIDE && member(f->routes[ROUTE_INSIDE].list, a, port)) ||
	       (f->draining && member(f->draining, a, port));
}

static __always_inline int own_pod(struct __sk_buff *skb, const struct packet *p)
{
	__u32 ifindex = skb->ifindex;
	struct device *d = bpf_map_lookup_elem(&plumb_devices, &ifindex);
	return (d && d->flags & DEVICE_OWN_PODS) || networks_of(&p->t.src) & NETWORK_OWN_PODS;
}

// masquerade_address is that of the device by which the endpoint is reached, else the node's.
SEPARATE int masquerade_address(struct __sk_buff *skb, const struct packet *p, const struct endpoint *to, struct addr *out)
{
	if (!p || !to || !out)
		return -1;
	struct bpf_fib_lookup fib = {.ifindex = skb->ifindex, .l4_protocol = p->t.proto, .tot_len = 0};
	if (p->v6) {
		fib.family = 10; // AF_INET6
		__builtin_memcpy(fib.ipv6_src, &p->t.src, sizeof(fib.ipv6_src));
		__builtin_memcpy(fib.ipv6_dst, &to->addr, sizeof(fib.ipv6_dst));
	} else {
		fib.family = 2; // AF_INET
		fib.ipv4_src = p->t.src.w[3];
		fib.ipv4_dst = to->addr.w[3];
	}
	long found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	__u32 ifindex = fib.ifindex, zero = 0;
	if (found == BPF_FIB_LKUP_RET_SUCCESS || found == BPF_FIB_LKUP_RET_NO_NEIGH) {
		struct device *d = bpf_map_lookup_elem(&plumb_devices, &ifindex);
		if (d) {
			*out = pick(p->v6, &d->masquerade[1], &d->masquerade[0]);
			if (out->w[3] || out->w[0])
				return 0;
		}
	}
	struct config *cfg = bpf_map_lookup_elem(&plumb_config, &zero);
	if (!cfg)
		return -1;
	*out = pick(p->v6, &cfg->masquerade[1], &cfg->masquerade[0]);
	return out->w[3] || out->w[0] ? 0 : -1;
}

#define NOT_OURS -1
#define NO_SLOT -2 // a list was taken away meanwhile, or something replaced: it has a successor

// What Resolve says: 0, with want filled but for the address to masquerade with, to forward; else why not: COUNT_*.
SEPARATE int decide(struct __sk_buff *skb, const struct packet *p, struct plan *want, __u64 now)
{
	if (!p || !want)
		return NOT_OURS;
	struct frontend *f = NULL;
	struct frontend_key k = {}; // see SEPARATE
	int found = find(p, class_of(&p->t.dst), 1, &k, &f);
	want->front = k;
	switch (found) {
	case NOTHING:
		return NOT_OURS;
	case REST:
		return COUNT_REFUSED_REST;
	case UNKNOWN:
		return COUNT_NO_SERVICE;
	}
	if (!f)
		return NOT_OURS;
	want->found = 1;
	int admitted = admits(f, &p->t.src), own = own_pod(skb, p);
	struct route r = f->routes[ROUTE_OUTSIDE];
	int inside = f->flags & FRONTEND_HAS_INSIDE && own;
	if (inside)
		r = f->routes[ROUTE_INSIDE];
	if (!still(&k, inside, &r))
		return NO_SLOT;
	if (!admitted)
		return COUNT_SOURCE_RANGE;
	if (r.action != ACTION_FORWARD)
		return r.action == ACTION_REJECT ? COUNT_REFUSED : COUNT_POLICY;
	if (choose(&p->t.src, f, &r, &want->to, now))
		return NO_SLOT;
	int masq = r.masquerade == MASQ_ALWAYS || (r.masquerade == MASQ_OFF_CLUSTER && !own);
	int hairpin = (inside || want->to.flags & ENDPOINT_LOCAL) && same(&want->to.addr, &p->t.src);
	want->masqueraded = (masq || hairpin) && !(want->to.flags & ENDPOINT_HOST);
	return 0;
}
