// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//go:build ignore

// The programs at sockets: what begins on the node gets its endpoint before there is a packet. See
// ../doc.go.

#include <asm-generic/errno.h>
#include "choose.h"

char _license[] SEC("license") = "Dual BSD/GPL";

// What the loader says.
const volatile __u64 node_netns; // the cookie of the node's own network namespace
const volatile __u8 can_refuse;	 // the kernel has bpf_set_retval (Linux 5.18): else packets are refused

// Of UDP sockets that send without: one may speak to many.
struct sent_key {
	__u64 socket; // its cookie
	struct addr addr;
	__be16 port;
	__u16 pad;
	__u32 pad2;
};

struct sent {
	struct addr asked;
	__be16 asked_port;
	__u16 pad;
	__u32 pad2;
	__u64 seen; // ns since boot, once in a second
};

MAP(plumb_sent, BPF_MAP_TYPE_LRU_HASH, struct sent_key, struct sent, 1, 0);

// Of UDP sockets that are connected, by their cookies: no program sees what they send, so the agent
// looks here for those whose endpoint is gone.
MAP(plumb_udp, BPF_MAP_TYPE_LRU_HASH, __u64, struct peer, 1, 0);

// A question: where does this socket's connection, or datagram, go?
struct question {
	struct addr dst;
	struct addr client; // for affinity
	__be16 port;
	__u8 proto;
	__u8 node; // the socket is in the node's own namespace
};

enum {
	LEAVE, // as it is: nothing of ours, or for the programs of devices to decide
	TRANSLATE,
	REFUSE,
	AGAIN, // a list was taken away meanwhile, or something replaced: it has a successor
};

// may tells whether source ranges can be asked here. A socket that is not bound has no address; of
// the node's own it is known which it will get.
static __always_inline int may(const struct frontend *f, const struct question *q)
{
	if (!(f->flags & FRONTEND_RESTRICTED))
		return 1;
	__u32 zero = 0;
	struct config *cfg = bpf_map_lookup_elem(&plumb_config, &zero);
	if (!q->node || !cfg)
		return 0;
	struct addr a = pick(is_v4(&q->dst), &cfg->masquerade[0], &cfg->masquerade[1]);
	return admits(f, &a);
}

// inner is the route for what is inside, chosen as an address is by pick.
static __always_inline struct route inner(const struct frontend *f)
{
	struct route in = f->routes[ROUTE_INSIDE], out = f->routes[ROUTE_OUTSIDE];
	__u32 mask = mask_of(f->flags & FRONTEND_HAS_INSIDE);
	return (struct route){
		.list = (in.list & mask) | (out.list & ~mask),
		.n = (in.n & mask) | (out.n & ~mask),
		.action = (in.action & mask) | (out.action & ~mask),
	};
}

// caught_again tells whether packets to an endpoint would be taken for some Service's at a device: a
// host network's pod may listen on the number of a node port, and an endpoint may have an address
// that is for Services. The node's own are let out by their sockets (spoken_to in plumb.c).
static __always_inline int caught_again(const struct endpoint *e, __u8 proto)
{
	struct frontend_key k;
	struct frontend *f = NULL;
	return find_for(&e->addr, e->port, proto, !is_v4(&e->addr), class_of(&e->addr), 0, &k, &f) != NOTHING;
}

// decide is Resolve for what has its socket on this node (plan.Options.Sockets).
SEPARATE int decide(const struct question *asked, struct endpoint *to)
{
	if (!asked || !to)
		return LEAVE;
	struct question q = *asked;
	__u32 class = class_of(&q.dst);
	if (!class)
		return LEAVE;
	struct frontend_key k;
	struct frontend *f = NULL;
	switch (find_for(&q.dst, q.port, q.proto, !is_v4(&q.dst), class, 1, &k, &f)) {
	case REST:
		if (can_refuse)
			count(COUNT_REFUSED_REST);
		return REFUSE;
	case FRONTEND:
		break;
	default:
		return LEAVE;
	}
	if (!f)
		return LEAVE;
	int admitted = may(f, &q), inside = f->flags & FRONTEND_HAS_INSIDE;
	struct route r = inner(f);
	if (!still(&k, inside, &r))
		return AGAIN;
	if (!admitted)
		return LEAVE;
	if (r.action == ACTION_DROP)
		return LEAVE;
	struct tally *t = NULL;
	if (r.action == ACTION_REJECT) {
		if (!can_refuse)
			return REFUSE;
		count(COUNT_REFUSED);
		t = tally(&k);
		if (t)
			add(&t->refused, 1);
		return REFUSE;
	}
	struct endpoint e = {};
	if (choose(&q.client, f, &r, &e, f->affinity ? bpf_ktime_get_ns() : 0)) // nothing else asks for the time
		return AGAIN;
	if (!q.node && caught_again(&e, q.proto))
		return LEAVE;
	*to = e;
	count(COUNT_NEW);
	t = tally(&k);
	if (t)
		add(&t->connections, 1);
	return TRANSLATE;
}

// ask fills what is the socket's into the question. No source address begins as a namespace's
// cookie does here.
static __always_inline int ask(struct bpf_sock_addr *ctx, struct question *q, struct endpoint *to)
{
	__u32 proto = ctx->protocol;
	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return LEAVE;
	__u64 netns = bpf_get_netns_cookie(ctx);
	q->proto = proto;
	q->node = netns == node_netns;
	q->client.w[0] = ~0u;
	q->client.w[1] = 0;
	q->client.w[2] = netns >> 32;
	q->client.w[3] = netns;
	int done = decide(q, to);
	if (done == AGAIN)
		done = decide(q, to);
	if (done == AGAIN)
		done = decide(q, to);
	return done;
}

static __always_inline void read4(struct bpf_sock_addr *ctx, struct addr *a)
{
	mapped(a, ctx->user_ip4);
}

static __always_inline void read6(struct bpf_sock_addr *ctx, struct addr *a)
{
	a->w[0] = ctx->user_ip6[0];
	a->w[1] = ctx->user_ip6[1];
	a->w[2] = ctx->user_ip6[2];
	a->w[3] = ctx->user_ip6[3];
}

static __always_inline void write4(struct bpf_sock_addr *ctx, const struct addr *a, __be16 port)
{
	ctx->user_ip4 = a->w[3];
	ctx->user_port = port;
}

static __always_inline void write6(struct bpf_sock_addr *ctx, const struct addr *a, __be16 port)
{
	ctx->user_ip6[0] = a->w[0];
	ctx->user_ip6[1] = a->w[1];
	ctx->user_ip6[2] = a->w[2];
	ctx->user_ip6[3] = a->w[3];
	ctx->user_port = port;
}

// goes_on is what a program that may refuse returns. Without bpf_set_retval the packet is refused.
static __always_inline int goes_on(int done)
{
	if (done != REFUSE || !can_refuse)
		return 1;
	bpf_set_retval(-ECONNREFUSED);
	return 0;
}

// connects notes what a socket asked for, or that it asked for nothing of ours.
static __always_inline int connects(struct bpf_sock_addr *ctx, struct question *q, struct endpoint *to)
{
	struct bpf_sock *sk = ctx->sk;
	int done = ask(ctx, q, to);
	if (!sk || (done == REFUSE && can_refuse)) // a socket stays as it was where its call fails
		return done;
	__u64 cookie = bpf_get_socket_cookie(ctx);
	if (done != TRANSLATE) {
		bpf_sk_storage_delete(&plumb_peers, sk);
		if (ctx->protocol == IPPROTO_UDP)
			bpf_map_delete_elem(&plumb_udp, &cookie);
		return done;
	}
	struct peer now = {.asked = q->dst, .addr = to->addr, .asked_port = q->port, .port = to->port, .node = q->node};
	struct peer *p = bpf_sk_storage_get(&plumb_peers, sk, &now, BPF_SK_STORAGE_GET_F_CREATE);
	if (p)
		*p = now;
	if (q->proto == IPPROTO_UDP)
		bpf_map_update_elem(&plumb_udp, &cookie, &now, BPF_ANY);
	return done;
}

static __always_inline void used(struct sent *s, __u64 now)
{
	if (since(s->seen, now) >= SECOND)
		s->seen = now;
}

// sends notes to what the answer belongs that the socket will read.
static __always_inline int sends(struct bpf_sock_addr *ctx, struct question *q, struct endpoint *to)
{
	int done = ask(ctx, q, to);
	struct sent_key k = {.socket = bpf_get_socket_cookie(ctx)};
	struct sent now = {.asked = q->dst, .asked_port = q->port, .seen = bpf_ktime_get_ns()};
	if (done != TRANSLATE) {
		k.addr = q->dst;
		k.port = q->port;
		if (bpf_map_lookup_elem(&plumb_sent, &k)) // from now on the endpoint itself is meant
			bpf_map_delete_elem(&plumb_sent, &k);
		return done;
	}
	k.addr = to->addr;
	k.port = to->port;
	struct sent *was = bpf_map_lookup_elem(&plumb_sent, &k);
	if (!was || !same(&was->asked, &now.asked) || was->asked_port != now.asked_port)
		bpf_map_update_elem(&plumb_sent, &k, &now, BPF_ANY);
	else
		used(was, now.seen);
	return done;
}

// connected is what a connected socket asked for, if it speaks to this address for it.
static __always_inline int connected(struct bpf_sock_addr *ctx, struct addr *a, __be16 *port)
{
	struct bpf_sock *sk = ctx->sk;
	if (!sk)
		return 0;
	struct peer *p = bpf_sk_storage_get(&plumb_peers, sk, NULL, 0);
	if (!p || !same(&p->addr, a) || p->port != *port)
		return 0;
	*a = p->asked;
	*port = p->asked_port;
	return 1;
}

// received is for what address, as the socket knows it, a datagram is the answer. One that has let go of
// its peer (connect(2) with AF_UNSPEC) asks no program then.
static __always_inline int received(struct bpf_sock_addr *ctx, struct addr *a, __be16 *port)
{
	struct bpf_sock *sk = ctx->sk;
	if (sk && sk->dst_port && connected(ctx, a, port))
		return 1;
	struct sent_key k = {.socket = bpf_get_socket_cookie(ctx), .addr = *a, .port = *port};
	struct sent *s = bpf_map_lookup_elem(&plumb_sent, &k);
	if (!s)
		return 0;
	used(s, bpf_ktime_get_ns());
	*a = s->asked;
	*port = s->asked_port;
	return 1;
}

#define BEGINS(PLACE, NAME, HOW, READ, WRITE)                   \
	SEC(PLACE)                                              \
	int NAME(struct bpf_sock_addr *ctx)                     \
	{                                                       \
		struct question q = {.port = ctx->user_port};   \
		struct endpoint to = {};                        \
		READ(ctx, &q.dst);                              \
		int done = HOW(ctx, &q, &to);                   \
		if (done == TRANSLATE)                          \
			WRITE(ctx, &to.addr, to.port);          \
		return goes_on(done);                           \
	}

#define TELLS(PLACE, NAME, HOW, READ, WRITE)                    \
	SEC(PLACE)                                              \
	int NAME(struct bpf_sock_addr *ctx)                     \
	{                                                       \
		struct addr a;                                  \
		__be16 port = ctx->user_port;                   \
		READ(ctx, &a);                                  \
		if (HOW(ctx, &a, &port))                        \
			WRITE(ctx, &a, port);                   \
		return 1;                                       \
	}

BEGINS("cgroup/connect4", plumb_connect4, connects, read4, write4)
BEGINS("cgroup/connect6", plumb_connect6, connects, read6, write6)
BEGINS("cgroup/sendmsg4", plumb_sendmsg4, sends, read4, write4)
BEGINS("cgroup/sendmsg6", plumb_sendmsg6, sends, read6, write6)
TELLS("cgroup/recvmsg4", plumb_recvmsg4, received, read4, write4)
TELLS("cgroup/recvmsg6", plumb_recvmsg6, received, read6, write6)
TELLS("cgroup/getpeername4", plumb_getpeer4, connected, read4, write4)
TELLS("cgroup/getpeername6", plumb_getpeer6, connected, read6, write6)

SEC("cgroup/sock_release")
int plumb_release(struct bpf_sock *sk)
{
	if (sk->protocol == IPPROTO_UDP) {
		__u64 cookie = bpf_get_socket_cookie(sk);
		bpf_map_delete_elem(&plumb_udp, &cookie);
	}
	return 1;
}
