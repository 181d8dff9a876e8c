package backend

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/listing"
)

// ebpfSeries tell what the programs have counted since their maps were made, which outlive the
// agent.
func ebpfSeries(t *ebpf.Target, pins string) []Series {
	counted := func(each func(name string, n uint64)) error {
		all, err := ebpf.Counts(pins)
		for name, n := range all {
			each(name, n)
		}
		return err
	}
	reason := map[string]bool{}
	for _, name := range ebpf.Reasons() {
		reason[name] = true
	}
	one := func(name, help, counter string) Series {
		return Series{Name: name, Help: help, Total: true, Each: func(emit func(float64, ...string)) error {
			return counted(func(name string, n uint64) {
				if name == counter {
					emit(float64(n))
				}
			})
		}}
	}
	return []Series{
		one("plumbline_ebpf_connections_total", "Connections that the programs began to translate.", "new"),
		one("plumbline_ebpf_unknown_tcp_packets_total", "Packets of TCP connections to a frontend of which nothing is known; they passed on untranslated.", "unknown-tcp"),
		one("plumbline_ebpf_taken_ports_total", "Connections that got another source port, for theirs had another connection to the same endpoint.", "taken-port"),
		{
			Name: "plumbline_ebpf_stopped_packets_total", Help: "Packets that were refused (reasons that begin with refused) or dropped.", Labels: []string{"reason"}, Total: true,
			Each: func(emit func(float64, ...string)) error {
				return counted(func(name string, n uint64) {
					if reason[name] {
						emit(float64(n), name)
					}
				})
			},
		},
		{
			Name: "plumbline_ebpf_frontend_total", Help: "Connections that began by a frontend, and packets that were refused or dropped of it, since it is there.",
			Labels: []string{"frontend", "what"}, Total: true, Each: func(emit func(float64, ...string)) error { return tallies(pins, emit) },
		},
		{
			Name: "plumbline_ebpf_map_entries", Help: "Entries that last of what is remembered, by map, at the last sweep.", Labels: []string{"map"},
			Each: func(emit func(float64, ...string)) error {
				for _, u := range t.Uses() {
					emit(float64(u.Entries), u.Map)
				}
				return nil
			},
		},
		{
			Name: "plumbline_ebpf_map_size", Help: "How many there is room for.", Labels: []string{"map"},
			Each: func(emit func(float64, ...string)) error {
				for _, u := range t.Uses() {
					emit(float64(u.Size), u.Map)
				}
				return nil
			},
		},
	}
}

func tallies(pins string, emit func(float64, ...string)) error {
	all, err := ebpf.Tallies(pins)
	for k, t := range all {
		text := listing.KeyText(k)
		emit(float64(t.Connections), text, "connections")
		emit(float64(t.Refused), text, "refused")
		emit(float64(t.Dropped), text, "dropped")
	}
	return err
}

// ebpfLooks has one at how full the maps are.
func ebpfLooks(t *ebpf.Target) []Look {
	return []Look{{
		Reason: "MapNearlyFull", Cure: "fewer connections at a time, or larger maps",
		Amiss: func() ([]string, error) { return t.Crowded(), nil },
	}}
}

// ebpfDropped says, where anybody wants to know, of some packets why they went no further.
func ebpfDropped(log *slog.Logger) func(ebpf.Drop) {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return nil
	}
	return func(d ebpf.Drop) {
		message := "packet dropped"
		if strings.HasPrefix(d.Reason, "refused") {
			message = "packet refused"
		}
		log.Debug(message, "reason", d.Reason, "proto", d.Protocol, "from", d.Src, "to", d.Dst, "device", d.Device, "leaving", d.Leaving)
	}
}

// verifierLog opens a file, made or begun anew.
func verifierLog(path string) func() (io.WriteCloser, error) {
	return func() (io.WriteCloser, error) {
		return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	}
}
