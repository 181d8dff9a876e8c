package conntrack

import (
	"cmp"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// verdict is what is to happen to a flow.
type verdict uint8

const (
	keep verdict = iota
	remove
	reset
)

// States of TCP in the kernel's table (nf_conntrack_tcp.h).
const (
	tcpSynSent     = 1
	tcpEstablished = 3
	tcpCloseWait   = 5
	tcpSynSent2    = 9
)

// judge decides about a flow, whatever it was asked for by: the kernel's filter
// only saves time.
func (w *work) judge(f flow) verdict {
	p := place{f.protocol, f.dst}
	switch f.protocol {
	case objects.UDP:
		if w.table.isAside(p) {
			return keep
		}
		c, claimed := w.claims[p]
		if !claimed && w.full {
			c.now = w.table.find(p)
		}
		if w.stale(c, f) || c.now == nil && w.closed[f.dst.Addr()] && f.from != f.dst {
			return remove
		}
	case objects.TCP:
		return w.judgeTCP(p, f)
	}
	return keep
}

func (w *work) judgeTCP(p place, f flow) verdict {
	_, gone := w.gone[f.from]
	ours := w.table.find(p) != nil || w.claims[p].was != nil
	if !gone || f.from == f.dst || !ours {
		return keep
	}
	return endTCP(f)
}

// endTCP: what closes by itself is left alone, and one that only knocks is free to knock
// elsewhere.
func endTCP(f flow) verdict {
	switch {
	case f.state == tcpSynSent || f.state == tcpSynSent2:
		return remove
	case f.state > tcpSynSent && f.state <= tcpCloseWait:
		return reset
	}
	return keep
}

// mostQuestions of one family and protocol are put one by one; more are one dump
// of the family. The kernel walks its whole table for each, which costs by the
// size of its hash table, while a dump of all costs by the number of flows: with
// few flows the second question is one too many, with 200 000 the ninth (doc.go
// has the numbers of BenchmarkDump). Four are never far from the better choice.
const mostQuestions = 4

// questions are the filters that together show every flow there may be to judge.
// Flows of endpoints that are gone are asked for by endpoint: one question for
// all frontends of a Service, and its answer has nothing but stale flows.
func (w *work) questions() []filter {
	ask := map[filter]bool{}
	if w.full {
		for k := range w.table.fronts {
			if k.Protocol == objects.UDP {
				ask[filter{ipv6: k.IPv6, protocol: k.Protocol}] = true
			}
		}
		for a := range w.closed {
			ask[filter{ipv6: a.Is6(), protocol: objects.UDP}] = true
		}
	}
	for p, c := range w.claims {
		if p.protocol != objects.UDP {
			continue
		}
		if c.all {
			ask[toward(p.protocol, p.at)] = true
		}
		for _, a := range c.lost {
			ask[answeredBy(p.protocol, a)] = true
		}
	}
	for a := range w.gone {
		ask[answeredBy(objects.TCP, a)] = true
	}
	return together(ask, mostQuestions)
}

// together replaces the filters of a family and protocol by one without
// addresses where that is among them, or where they are more than most.
func together(ask map[filter]bool, most int) []filter {
	number := map[filter]int{}
	for q := range ask {
		number[q.wide()]++
	}
	for q := range ask {
		if wide := q.wide(); q != wide && (ask[wide] || number[wide] > most) {
			delete(ask, q)
			ask[wide] = true
		}
	}
	out := make([]filter, 0, len(ask))
	for q := range ask {
		out = append(out, q)
	}
	slices.SortFunc(out, compareFilters)
	return out
}

func compareFilters(a, b filter) int {
	return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(family(a.ipv6), family(b.ipv6)), a.dst.Compare(b.dst), a.from.Compare(b.from))
}
