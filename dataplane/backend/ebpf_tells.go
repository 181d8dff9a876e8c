package backend

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/listing"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Of ebpf's metrics.
const (
	ebpfConnections = "plumbline_ebpf_connections_total"
	ebpfUnknownTCP  = "plumbline_ebpf_unknown_tcp_packets_total"
	ebpfTakenPorts  = "plumbline_ebpf_taken_ports_total"
	ebpfStopped     = "plumbline_ebpf_stopped_packets_total"
	ebpfOfFrontend  = "plumbline_ebpf_frontend_connections_total"
	ebpfStoppedOf   = "plumbline_ebpf_frontend_stopped_packets_total"
	ebpfEntries     = "plumbline_ebpf_map_entries"
	ebpfSize        = "plumbline_ebpf_map_size"
	ebpfStranded    = "plumbline_ebpf_stranded_sockets"
	ebpfUnpinnable  = "plumbline_ebpf_unpinnable"
)

// ebpfSeries tell what the programs have counted since their maps were made, which outlive the
// agent, and how full these are.
func ebpfSeries(t *ebpf.Target) Series {
	return Series{
		Metrics: []Metric{
			{Name: ebpfConnections, Help: "Connections that the programs began to translate.", Total: true},
			{Name: ebpfUnknownTCP, Help: "Packets of TCP connections to a frontend of which nothing is known; they passed on untranslated.", Total: true},
			{Name: ebpfTakenPorts, Help: "Connections that got another source port, for theirs had another connection to the same endpoint.", Total: true},
			{Name: ebpfStopped, Help: "Packets that were refused (reasons that begin with refused) or dropped.", Labels: []string{"reason"}, Total: true},
			{Name: ebpfOfFrontend, Help: "Connections that began by a frontend since it is there; none where there were none.", Labels: []string{"frontend"}, Total: true},
			{Name: ebpfStoppedOf, Help: "Packets to a frontend that were refused or dropped since it is there; none where there were none.", Labels: []string{"frontend", "what"}, Total: true},
			{Name: ebpfEntries, Help: "Entries that last of what is remembered, by map, at the last sweep.", Labels: []string{"map"}},
			{Name: ebpfSize, Help: "How many there is room for.", Labels: []string{"map"}},
			{Name: ebpfStranded, Help: "UDP sockets that are connected to an endpoint which is gone, and were not ended: pods' are in namespaces of their own."},
			{Name: ebpfUnpinnable, Help: "1 while nothing can be pinned where all was: what begins on the node is not translated, and the next agent finds nothing."},
		},
		Read: func(emit func(string, float64, ...string)) error {
			for _, u := range t.Uses() {
				emit(ebpfEntries, float64(u.Entries), u.Map)
				emit(ebpfSize, float64(u.Size), u.Map)
			}
			emit(ebpfStranded, float64(t.Stranded()))
			emit(ebpfUnpinnable, map[bool]float64{true: 1}[t.Unpinnable() != nil])
			all, err := t.Counted()
			emitCounts(all.Counts, emit)
			emitTallies(all.Tallies, emit)
			return err
		},
	}
}

func emitCounts(counts map[string]uint64, emit func(string, float64, ...string)) {
	names := map[string]string{"new": ebpfConnections, "unknown-tcp": ebpfUnknownTCP, "taken-port": ebpfTakenPorts}
	for counter, n := range counts {
		if name := names[counter]; name != "" {
			emit(name, float64(n))
		} else {
			emit(ebpfStopped, float64(n), counter)
		}
	}
}

// emitTallies leaves out what is 0: a node has many frontends of which nothing was ever counted.
func emitTallies(tallies map[plan.Key]ebpf.Tally, emit func(string, float64, ...string)) {
	for k, t := range tallies {
		frontend := listing.KeyText(k)
		if t.Connections > 0 {
			emit(ebpfOfFrontend, float64(t.Connections), frontend)
		}
		for what, n := range map[string]uint64{"refused": t.Refused, "dropped": t.Dropped} {
			if n > 0 {
				emit(ebpfStoppedOf, float64(n), frontend, what)
			}
		}
	}
}

// ebpfLooks are at how full the maps are, at whether there is a bpffs, and at the ports, of which there may be too
// few for an endpoint, which a node that was not prepared does not reserve, and which a sysctl that is set later
// takes back.
func ebpfLooks(t *ebpf.Target, netns int) []Look {
	return []Look{
		{
			Reason: "MapNearlyFull", Cure: "fewer connections at a time, or larger maps",
			Amiss: func() ([]string, error) { return t.Crowded(), nil },
		},
		{
			Reason: "NoPortLeft", Cure: "fewer connections at a time to one endpoint that get the node's source, more endpoints, or externalTrafficPolicy Local, under which clients keep theirs",
			Amiss: rising(func() (uint64, bool, error) { return t.Count("no-snat-port") },
				"connections are dropped: to their endpoint none of the ports of masqueraded connections is left on this node"),
		},
		{
			Reason: "NothingPinned", Cure: "a bpffs at " + ebpf.Mount + " again: plumb-proxy --init-only --backend=ebpf on this node mounts one",
			Amiss: func() ([]string, error) {
				if err := t.Unpinnable(); err != nil {
					return []string{"what begins on the node is not translated at sockets, and the next agent will find neither maps nor programs: " + err.Error()}, nil
				}
				return nil, nil
			},
		},
		{
			Reason: "PortsNotReserved", Cure: "plumb-proxy --init-only --backend=ebpf on this node reserves them",
			Amiss: func() ([]string, error) {
				ports, err := ebpf.Unreserved(netns)
				if ports == "" || err != nil {
					return nil, err
				}
				return []string{"ports " + ports + " are given to masqueraded connections and not reserved (sysctl net.ipv4.ip_local_reserved_ports): a program of the node that is given one of them may get another's answers"}, nil
			},
		},
	}
}

// rising has the line when a counter has risen since the look before. What was counted before the first look is
// from another agent's time.
func rising(count func() (n uint64, is bool, err error), line string) func() ([]string, error) {
	var last uint64
	known := false
	return func() (out []string, err error) {
		n, is, err := count()
		if err != nil || !is {
			return nil, err
		}
		if known && n > last {
			out = []string{line}
		}
		last, known = n, true
		return out, nil
	}
}

// ebpfDropped says, where anybody wants to know, of some packets why they went no further.
func ebpfDropped(log *slog.Logger) func(context.Context) func(ebpf.Drop) {
	tell := func(d ebpf.Drop) {
		message := "packet dropped"
		if strings.HasPrefix(d.Reason, "refused") {
			message = "packet refused"
		}
		log.Debug(message, "reason", d.Reason, "proto", d.Protocol, "from", d.Src, "to", d.Dst, "device", d.Device, "leaving", d.Leaving)
	}
	return func(ctx context.Context) func(ebpf.Drop) {
		if !log.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
		return tell
	}
}

// verifierLog opens a file, made or begun anew.
func verifierLog(path string) func() (io.WriteCloser, error) {
	return func() (io.WriteCloser, error) {
		return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	}
}
