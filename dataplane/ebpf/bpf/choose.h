// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What plan.Resolve says of a destination, from the maps: for a packet and for a socket.
#pragma once

#include <linux/in.h>
#include "maps.h"

#define SECOND 1000000000ULL

// since is never negative: another processor may have written a moment that is to come for this
// one, which read the time before.
static __always_inline __u64 since(__u64 then, __u64 now)
{
	return (__s64)(now - then) > 0 ? now - then : 0;
}

static __always_inline void mapped(struct addr *a, __be32 v4)
{
	a->w[0] = 0;
	a->w[1] = 0;
	a->w[2] = bpf_htonl(0xffff);
	a->w[3] = v4;
}

static __always_inline int is_v4(const struct addr *a)
{
	return !(a->w[0] | a->w[1] | (a->w[2] ^ bpf_htonl(0xffff)));
}

static __always_inline int has_ports(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

// What a packet is for.
enum {
	NOTHING,   // none of a proxy's business
	FRONTEND,
	REST,	   // of a ClusterIP
	UNKNOWN,   // an address that no Service has
};

static __always_inline __u32 class_of(const struct addr *a)
{
	struct addr key = *a;
	__u32 *class = bpf_map_lookup_elem(&plumb_addrs, &key);
	return class ? *class : 0;
}

static __always_inline __u32 networks_of(const struct addr *a)
{
	struct network_key k = {.bits = 128, .addr = *a};
	__u32 *flags = bpf_map_lookup_elem(&plumb_networks, &k);
	return flags ? *flags : 0;
}

static __always_inline int unallocated(const struct addr *a)
{
	__u32 zero = 0;
	struct config *cfg = bpf_map_lookup_elem(&plumb_config, &zero);
	return cfg && cfg->flags & CONFIG_SERVICE_CIDRS && networks_of(a) & NETWORK_SERVICES;
}

// front is the entry of a frontend. The kernel replaces one by putting the new one before all others of
// its bucket and then taking the old one away: who is between the two places meanwhile finds neither. So
// who would refuse, or pass by the Service, for want of it looks twice (sure).
static __always_inline struct frontend *front(const struct frontend_key *k, int sure)
{
	struct frontend *f = bpf_map_lookup_elem(&plumb_fronts, k);
	return f || !sure ? f : bpf_map_lookup_elem(&plumb_fronts, k);
}

// find_for is steps 1 and 2 of Resolve. k becomes the frontend's.
static __always_inline int find_for(const struct addr *dst, __be16 port, __u8 proto, int v6, __u32 class, int sure, struct frontend_key *k, struct frontend **out)
{
	if (class && has_ports(proto)) {
		*k = (struct frontend_key){.addr = *dst, .port = port, .proto = proto, .kind = FRONTEND_ADDRESS};
		*out = front(k, sure && class & (ADDRESS_CLUSTER_IP | ADDRESS_EXTERNAL)); // else it has none
		if (*out)
			return FRONTEND;
		if (class & ADDRESS_NODE) {
			__builtin_memset(&k->addr, 0, sizeof(k->addr));
			k->kind = v6 ? FRONTEND_NODE_PORT6 : FRONTEND_NODE_PORT;
			*out = front(k, sure);
			if (*out)
				return FRONTEND;
		}
	}
	if (class & ADDRESS_CLUSTER_IP)
		return REST;
	return unallocated(dst) ? UNKNOWN : NOTHING;
}

static __always_inline int admits(const struct frontend *f, const struct addr *src)
{
	if (!(f->flags & FRONTEND_RESTRICTED))
		return 1;
	struct source_key k = {.bits = 160, .sources = f->sources, .addr = *src};
	return bpf_map_lookup_elem(&plumb_sources, &k) != NULL;
}

static __always_inline __u32 *member(__u32 list, const struct addr *a, __be16 port)
{
	struct member_key k = {.list = list, .addr = *a, .port = port};
	return bpf_map_lookup_elem(&plumb_members, &k);
}

// remembered is the endpoint that the client had last, if the route still has it.
static __always_inline int remembered(const struct frontend *f, const struct route *r, const struct affinity_key *k, struct endpoint *to, __u64 now)
{
	struct affinity *a = bpf_map_lookup_elem(&plumb_affinity, k);
	if (!a || since(a->used, now) > f->affinity * SECOND)
		return 0;
	__u32 *flags = member(r->list, &a->addr, a->port);
	if (!flags)
		return 0;
	to->addr = a->addr;
	to->port = a->port;
	to->flags = *flags;
	a->used = now;
	a->lasts = f->affinity;
	return 1;
}

// remember keeps the endpoint for the client, or takes the one that another processor has kept
// meanwhile. What stands there else is over.
static __always_inline void remember(const struct frontend *f, const struct route *r, const struct affinity_key *k, struct endpoint *to, __u64 now)
{
	struct affinity a = {.addr = to->addr, .port = to->port, .lasts = f->affinity, .used = now};
	if (!bpf_map_update_elem(&plumb_affinity, k, &a, BPF_NOEXIST) || remembered(f, r, k, to, now))
		return;
	bpf_map_delete_elem(&plumb_affinity, k);
	if (bpf_map_update_elem(&plumb_affinity, k, &a, BPF_NOEXIST))
		remembered(f, r, k, to, now);
}

// still tells whether a route is what its frontend says, asked anew. The kernel gives the memory of an
// entry that is replaced to the next one that is written, so what was read of the one that was found may be
// another's, or half of it. Lists are of one frontend, so nobody else says the same.
static __always_inline int still(const struct frontend_key *k, int inside, const struct route *r)
{
	struct frontend *f = bpf_map_lookup_elem(&plumb_fronts, k);
	if (!f)
		return 0;
	struct route in = f->routes[ROUTE_INSIDE], out = f->routes[ROUTE_OUTSIDE];
	__u32 mask = mask_of(inside);
	return !((((in.list & mask) | (out.list & ~mask)) ^ r->list) | (((in.n & mask) | (out.n & ~mask)) ^ r->n) |
		 (((in.action & mask) | (out.action & ~mask)) ^ r->action));
}

// slot is the endpoint of a slot, which is asked twice as a frontend is (still).
static __always_inline int slot(const struct slot_key *s, struct endpoint *to)
{
	struct endpoint *e = bpf_map_lookup_elem(&plumb_slots, s);
	if (!e)
		return -1;
	*to = *e;
	e = bpf_map_lookup_elem(&plumb_slots, s);
	return !e || !same(&e->addr, &to->addr) || e->port != to->port || e->flags != to->flags;
}

// choose is not 0 where the list was taken away, or its slot replaced, meanwhile.
static __always_inline int choose(const struct addr *client, const struct frontend *f, const struct route *r, struct endpoint *to, __u64 now)
{
	struct affinity_key k = {.client = *client, .group = f->group, .group_port = f->group_port, .group_proto = f->group_proto};
	if (f->affinity && remembered(f, r, &k, to, now))
		return 0;
	struct slot_key s = {.list = r->list, .index = bpf_get_prandom_u32() % (r->n ? r->n : 1)};
	if (slot(&s, to))
		return -1;
	if (f->affinity)
		remember(f, r, &k, to, now);
	return 0;
}
