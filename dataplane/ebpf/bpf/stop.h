// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Why a packet goes no further: counted, and some of them shown.
#pragma once

#include "packet.h"

// When the next one of its kind is due, in ns since boot.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, MAX_COUNTERS);
} plumb_due SEC(".maps");

#define DUE_REFUSALS COUNTERS // the others are those of samples, by their reason

// allowed tells whether one more of a kind is within so many a second on this processor. What was
// not used is kept, for a second.
static __always_inline int allowed(__u32 kind, __u64 a_second, __u64 now)
{
	__u64 *due = bpf_map_lookup_elem(&plumb_due, &kind);
	if (!due)
		return 0;
	__u64 each = SECOND / a_second, first = now > SECOND ? now - SECOND : 0, at = *due;
	if (at < first)
		at = first;
	if (at + each > now)
		return 0;
	*due = at + each;
	return 1;
}

// note counts a packet that goes no further.
SEPARATE int note(const struct packet *p, __u32 why, __u64 now)
{
	if (!p)
		return -1;
	count(why);
	if (!allowed(why, SAMPLES, now))
		return 0;
	struct sample s = {.at = now, .t = p->t, .device = p->device, .why = why};
	return bpf_ringbuf_output(&plumb_samples, &s, sizeof(s), 0);
}

// stop drops a packet: nothing else in the programs does.
static __always_inline int stop(const struct packet *p, __u32 why, __u64 now)
{
	note(p, why, now);
	return TC_ACT_SHOT;
}
