// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections: what is remembered of them, for how long, and how they begin.
#pragma once

#include "rewrite.h"
#include "stop.h"

#define TCP_SYN_FOR (60 * SECOND) // until the client has answered the answer
#define TCP_FOR (6 * 3600 * SECOND)
#define TCP_CLOSING_FOR (120 * SECOND) // half of it may go on, as for conntrack
#define TCP_RESET_FOR (10 * SECOND)    // for the last packets of both halves
// Who ended it first waits for a minute (TIME_WAIT; Linux's TCP_TIMEWAIT_LEN), and may take the SYN of
// another client by the same ports for the old connection's: ports rest as long, unless none is left.
#define TCP_ENDED_FOR (61 * SECOND)
#define UDP_FOR (120 * SECOND)
#define UDP_SHORT_FOR (30 * SECOND) // one question, whether answered or not

// closed tells whether both sides of a TCP connection have ended it, or one has reset it.
static __always_inline int closed(const struct flow *f)
{
	return f->state & FLOW_RESET || (f->state & FLOW_FINS) == FLOW_FINS;
}

// ../ended.go has the same.
static __always_inline int alive(const struct flow *f, __u8 proto, __u64 now)
{
	__u64 lasts;
	if (proto == IPPROTO_UDP)
		lasts = f->state & FLOW_ESTABLISHED ? UDP_FOR : UDP_SHORT_FOR;
	else if (f->state & FLOW_RESET)
		lasts = TCP_RESET_FOR;
	else if (closed(f))
		lasts = TCP_ENDED_FOR;
	else if (f->state & FLOW_FINS)
		lasts = TCP_CLOSING_FOR;
	else
		lasts = f->state & FLOW_ESTABLISHED ? TCP_FOR : TCP_SYN_FOR;
	return since(f->seen, now) < lasts;
}

// partner_key is the key of the entry that translates what answers.
static __always_inline void partner_key(struct flow_key *out, const struct flow_key *k, const struct flow *f)
{
	out->proto = k->proto;
	out->pad = 0;
	int ingress = k->step == INGRESS;
	out->src = pick(ingress, &f->addr, &k->dst);
	out->dst = pick(ingress, &k->src, &f->addr);
	out->sport = either(ingress, f->port, f->other);
	out->dport = either(ingress, f->other, f->port);
	out->step = !k->step;
}

static __always_inline int agree(const struct flow *a, const struct flow *b)
{
	return same(&a->addr, &b->addr) && a->port == b->port && a->other == b->other;
}

// partner_of is what the partner of an entry under k says but for its state: the same the other way.
static __always_inline struct flow partner_of(const struct flow_key *k, const struct flow *f)
{
	struct flow out = {.seen = f->seen, .state = f->state, .answer = !f->answer};
	int ingress = k->step == INGRESS;
	out.addr = pick(ingress, &k->dst, &k->src);
	out.port = either(ingress, k->dport, k->sport);
	out.other = either(ingress, k->sport, k->dport);
	return out;
}

// state_after is an entry's state when a packet of it was seen.
static __always_inline __u8 state_after(const struct packet *p, const struct flow *f, __u64 now)
{
	__u8 state = f->state;
	if (p->t.proto == IPPROTO_UDP) {
		if (state & FLOW_REPLIED && since(f->seen, now) >= SECOND)
			state |= FLOW_ESTABLISHED;
		return f->answer ? state | FLOW_REPLIED : state;
	}
	if (f->answer)
		state |= FLOW_REPLIED;
	else if (state & FLOW_REPLIED && p->flags & TCP_ACK)
		state |= FLOW_ESTABLISHED;
	if (p->flags & TCP_FIN)
		state |= f->answer ? FLOW_FIN_BACK : FLOW_FIN;
	// A reset that the other side does not take for one does not end it.
	state &= ~FLOW_RESET;
	return p->flags & TCP_RST ? state | FLOW_RESET : state;
}

// touch notes that a packet was seen, in an entry and its partner: a connection lives as long as
// either side speaks. It writes once in a second, or when something changes. What stands in the
// partner's place may be another connection's.
SEPARATE int touch(const struct packet *p, struct flow *f, __u64 now)
{
	if (!p || !f)
		return -1;
	__u8 state = state_after(p, f, now);
	if (state == f->state && since(f->seen, now) < SECOND)
		return 0;
	f->state = state;
	f->seen = now;
	struct flow_key k;
	partner_key(&k, &p->t, f);
	struct flow again = partner_of(&p->t, f), *partner = bpf_map_lookup_elem(&plumb_flows, &k);
	if (!partner) // the map had no room for it
		return bpf_map_update_elem(&plumb_flows, &k, &again, BPF_NOEXIST);
	if (agree(partner, &again)) {
		partner->state = (partner->state & ~FLOW_RESET) | state; // another packet may be at it
		partner->seen = now;
	}
	return 0;
}

// take deletes the partner of an entry under k. It is not 0 if that was not there, or what stands
// in its place is another connection's.
static __always_inline int take(const struct flow_key *k, const struct flow *f)
{
	struct flow_key other;
	partner_key(&other, k, f);
	struct flow want = partner_of(k, f), *partner = bpf_map_lookup_elem(&plumb_flows, &other);
	return !partner || !agree(partner, &want) || bpf_map_delete_elem(&plumb_flows, &other);
}

// withdraw takes the entries that belong to an entry F. Without its R the others may be another
// connection's: they end by themselves.
SEPARATE int withdraw(const struct flow_key *k, const struct flow *f)
{
	if (!k || !f)
		return -1;
	if (take(k, f))
		return 0;
	struct flow_key mk = {.src = k->src, .sport = f->other, .dst = f->addr, .dport = f->port, .proto = k->proto, .step = EGRESS};
	struct flow *m = bpf_map_lookup_elem(&plumb_flows, &mk);
	if (!m)
		return 0;
	take(&mk, m);
	return bpf_map_delete_elem(&plumb_flows, &mk);
}

// forget ends the connection of an entry F.
SEPARATE int forget(const struct flow_key *k, const struct flow *f)
{
	if (!k || !f)
		return -1;
	struct flow old = *f;
	withdraw(k, &old);
	struct flow_key key = *k;
	return bpf_map_delete_elem(&plumb_flows, &key);
}

// claim makes an entry where none lives. It is 0 if that is made, else what lives there is in was.
SEPARATE int claim(const struct flow_key *k, const struct flow *f, struct flow *was)
{
	if (!k || !f || !was)
		return -1;
	struct flow_key key = *k;
	struct flow entry = *f;
	if (!bpf_map_update_elem(&plumb_flows, &key, &entry, BPF_NOEXIST))
		return 0;
	struct flow *old = bpf_map_lookup_elem(&plumb_flows, &key);
	if (old && alive(old, key.proto, entry.seen)) {
		*was = *old;
		return 1;
	}
	// Of a connection that has ended. Two that find it so at once have the same to write there,
	// or meet again at the next entry.
	bpf_map_delete_elem(&plumb_flows, &key);
	if (!bpf_map_update_elem(&plumb_flows, &key, &entry, BPF_NOEXIST))
		return 0;
	old = bpf_map_lookup_elem(&plumb_flows, &key);
	if (!old)
		return -1;
	*was = *old;
	return 1;
}

// A connection that is to be.
struct plan {
	struct frontend_key front;
	__u8 found; // front is there
	struct endpoint to;
	struct addr masquerade; // of a connection whose source is replaced
	__u8 masqueraded;
};

// What beginning, begin and masquerade work with: on the stack there is no room for it. Nothing interrupts a program
// by another one of these on the same processor.
struct masquerading {
	struct flow m, s, was;
	struct flow_key mk, sk;
	__u32 low, ports, start; // of the range, and where in it to begin
	int found;
	__be16 spare; // of a connection that is closed, whose port another may have at need
};

struct scratch {
	struct flow_key k;
	struct flow r, f, was;
	int taken; // k lives already: 1, or -1 that it could not be told
	struct masquerading masquerading;
	struct plan want; // beginning's
	struct change change;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} plumb_scratch SEC(".maps");

#define PORT_TRIES 32
#define SNAT_TRIES 256 // in a row: of a range with one port in fifty free, all but one in a hundred find it

static __always_inline struct scratch *scratch(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&plumb_scratch, &zero);
}

// tally_of is the tally of a packet's frontend.
static __always_inline struct tally *tally_of(const struct plan *want)
{
	if (!want->found)
		return NULL;
	struct frontend_key k = want->front; // see SEPARATE
	return tally(&k);
}

// tally_stopped counts a packet that was refused or dropped.
SEPARATE int tally_stopped(const struct plan *want, int refused)
{
	struct tally *t = want ? tally_of(want) : NULL;
	if (!t)
		return -1;
	add(&t->refused, !!refused); // both: which of them cannot be told by a pointer, without PERFMON
	add(&t->dropped, !refused);
	return 0;
}

// ours tells whether an entry S that lives is the one wanted: by another processor, or from before
// its entry F was lost.
static __always_inline int ours(const struct masquerading *w)
{
	return same(&w->was.addr, &w->s.addr) && w->was.port == w->s.port;
}

// try_snat tries one port for S. The loops are the kernel's, for the verifier has to see no end.
static long try_snat(__u32 i, void *unused)
{
	(void)unused;
	struct scratch *all = scratch();
	if (!all)
		return 1;
	struct masquerading *w = &all->masquerading;
	if (i > w->ports)
		return 1;
	__u32 port = bpf_ntohs(w->s.port);
	if (i > 0 || port < w->low || port >= w->low + w->ports) // the client's first
		port = w->low + (w->start + i) % (w->ports ? w->ports : 1);
	w->sk.dport = bpf_htons(port);
	int taken = claim(&w->sk, &w->s, &w->was);
	w->found = !taken || (taken > 0 && ours(w));
	if (taken > 0 && !w->found && !w->spare && closed(&w->was))
		w->spare = w->sk.dport;
	return w->found;
}

// supplant takes the port of a connection that is closed, where no other is left.
static __always_inline int supplant(struct masquerading *w)
{
	w->sk.dport = w->spare;
	struct flow *old = bpf_map_lookup_elem(&plumb_flows, &w->sk);
	if (old && closed(old))
		bpf_map_delete_elem(&plumb_flows, &w->sk);
	int taken = claim(&w->sk, &w->s, &w->was);
	return !taken || (taken > 0 && ours(w));
}

// masquerade makes the entries M and S of a connection, with a port that no other has to this
// endpoint: the client's, if it is one of ours, else the first that is free from one at random on.
SEPARATE int masquerade(const struct flow_key *client, const struct plan *want, __be16 sport, __u64 now)
{
	__u32 zero = 0;
	struct config *cfg = bpf_map_lookup_elem(&plumb_config, &zero);
	struct scratch *all = scratch();
	if (!cfg || !all || !client || !want)
		return -1;
	struct masquerading *w = &all->masquerading;
	__builtin_memset(w, 0, sizeof(*w)); // field by field, as in outline
	w->m.seen = w->s.seen = now;
	w->m.other = w->s.other = w->sk.sport = w->mk.dport = want->to.port;
	w->m.addr = w->sk.dst = want->masquerade;
	w->s.addr = w->mk.src = client->src;
	w->s.port = w->mk.sport = sport;
	w->s.answer = 1;
	w->mk.dst = w->sk.src = want->to.addr;
	w->mk.proto = w->sk.proto = client->proto;
	w->mk.step = EGRESS;
	w->sk.step = INGRESS;
	w->low = cfg->snat_low;
	w->ports = cfg->snat_high - cfg->snat_low + 1u;
	w->start = bpf_get_prandom_u32();
	struct flow *m = bpf_map_lookup_elem(&plumb_flows, &w->mk);
	if (m && alive(m, client->proto, now)) { // made by another processor, or of a connection just ended
		w->sk.dst = m->addr;
		w->sk.dport = m->port;
		if (!claim(&w->sk, &w->s, &w->was) || ours(w))
			return 0;
		w->sk.dst = want->masquerade;
		bpf_map_delete_elem(&plumb_flows, &w->mk); // another connection has its port
	}
	bpf_loop(SNAT_TRIES, try_snat, NULL, 0);
	if (!w->found && w->spare)
		w->found = supplant(w);
	if (!w->found)
		return -2;
	w->m.port = w->sk.dport;
	int lost = claim(&w->mk, &w->m, &w->was);
	if (lost && !(same(&w->was.addr, &w->m.addr) && w->was.port == w->m.port))
		bpf_map_delete_elem(&plumb_flows, &w->sk);
	return lost < 0 ? -1 : 0;
}

// try_port tries one source port of the client's for R: the client's own first.
static long try_port(__u32 i, void *unused)
{
	(void)unused;
	struct scratch *w = scratch();
	if (!w)
		return 1;
	if (i > 0)
		w->k.dport = bpf_htons(32768 + bpf_get_prandom_u32() % 28232);
	w->taken = claim(&w->k, &w->r, &w->was);
	return w->taken <= 0 || agree(&w->was, &w->r);
}

// outline writes R with its key, and F, as they are to be if the client keeps its port. Field by
// field: the stack of a chain of functions is short, and older kernels round up each one's.
static __always_inline void outline(struct scratch *w, const struct packet *p, const struct plan *want, __u64 now)
{
	__builtin_memset(w, 0, offsetof(struct scratch, masquerading));
	w->k.src = w->f.addr = want->to.addr;
	w->k.sport = w->f.port = want->to.port;
	w->k.dst = p->t.src;
	w->k.dport = w->r.other = p->t.sport;
	w->k.proto = p->t.proto;
	w->k.step = EGRESS;
	w->r.addr = p->t.dst;
	w->r.port = p->t.dport;
	w->r.answer = 1;
	w->r.seen = w->f.seen = now;
}

// begin makes the entries of a connection: R, S, M, and last F, by which its packets are known.
// Who comes second to F takes what is there. out is what is to become of the packet.
// It returns why it could not, or -1.
SEPARATE int begin(const struct packet *p, const struct plan *want, struct change *out, __u64 now)
{
	if (!p || !want || !out)
		return COUNT_NO_ENTRY;
	struct scratch *w = scratch();
	if (!w)
		return COUNT_NO_ENTRY;
	outline(w, p, want, now);
	// Another connection of this client's port to this endpoint, by another frontend: its answers
	// could not be told from ours, unless ours has another port.
	bpf_loop(PORT_TRIES, try_port, NULL, 0);
	int taken = w->taken;
	if (taken < 0 || (taken && !agree(&w->was, &w->r)))
		return COUNT_NO_ENTRY;
	if (w->k.dport != p->t.sport)
		count(COUNT_TAKEN_PORT);
	if (want->masqueraded) {
		int bad = masquerade(&p->t, want, w->k.dport, now);
		if (bad) {
			if (!taken)
				bpf_map_delete_elem(&plumb_flows, &w->k);
			return bad == -2 ? COUNT_NO_SNAT_PORT : COUNT_NO_ENTRY;
		}
	}
	w->f.other = w->k.dport;
	int lost = claim(&p->t, &w->f, &w->was);
	if (lost < 0)
		return COUNT_NO_ENTRY;
	if (lost) {
		if (!agree(&w->was, &w->f))
			withdraw(&p->t, &w->f);
		w->f = w->was;
	} else {
		count(COUNT_NEW);
		struct tally *t = tally_of(want);
		if (t)
			add(&t->connections, 1);
	}
	out->addr = w->f.addr;
	out->port = w->f.port;
	out->other = w->f.other;
	return -1;
}
