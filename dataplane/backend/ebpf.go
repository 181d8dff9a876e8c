package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// overEBPF has its pins below ebpf.Root, in a namespace's folder.
func overEBPF(netns int) Backend {
	return Backend{
		Start: func(opts Options, log *slog.Logger) Running {
			cfg := ebpf.Config{Logger: log, NetNS: netns, Dropped: ebpfDropped(log)}
			if opts.VerifierLog != "" {
				cfg.Verifier = &verifierLog{path: opts.VerifierLog}
			}
			t := ebpf.New(cfg)
			pins, _ := ebpf.Folder(ebpf.Root, netns) // without one no Apply succeeds, which says why
			return Running{
				Target: keepsTranslated{t, netns, log}, Close: t.Close, Watch: t.Watch,
				Path:   func(p *plan.Plan, k plan.Key) (string, error) { return ebpf.Path(p, k, pins) },
				Series: ebpfSeries(t, pins), Looks: ebpfLooks(t),
			}
		},
		Clean: func() error { return cleanEBPF(netns) }, Left: func() ([]string, error) { return leftByEBPF(netns) },
		Damage: func() error {
			pins, err := ebpf.Folder(ebpf.Root, netns)
			if err != nil {
				return err
			}
			return errors.Join(ebpf.Clean(netns, pins), dropTranslated(netns)) // not the ports: no agent may reserve them
		},
		Render: ebpf.Render, Table: translated,
		Needs: func(context.Context, Options) []node.Capability { return []node.Capability{node.NetAdmin, node.BPF} },
		Keeps: Maps, Forwarded: true,
		NoNode: "they have been routed before a program of a device sees them, and there are none at sockets yet",
		Prepare: func() error {
			if err := ebpf.MountRoot(ebpf.Mount); err != nil {
				return err
			}
			pins, err := ebpf.Folder(ebpf.Root, netns)
			if err != nil {
				return err
			}
			return ebpf.Prepare(netns, pins)
		},
	}
}

// leftByEBPF names as well the ports that it keeps.
func leftByEBPF(netns int) ([]string, error) {
	pins, err := ebpf.Folder(ebpf.Root, netns)
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 5.14, which none of it has ever run on
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	left, err := ebpf.Left(netns, pins)
	held, unread := ebpf.Held(pins)
	if held != "" {
		left = append(left, "reserved ports "+held)
	}
	tables, unlisted := leftTranslated(netns)
	return append(left, tables...), errors.Join(err, unread, unlisted)
}

// cleanEBPF takes away all of it. Who may not write sysctls leaves the ports reserved.
func cleanEBPF(netns int) error {
	pins, err := ebpf.Folder(ebpf.Root, netns)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil
	}
	if err != nil {
		return err
	}
	before, _ := ebpf.Left(netns, pins) // what is wrong with it, Clean says
	if err := errors.Join(ebpf.Clean(netns, pins), dropTranslated(netns)); err != nil {
		return err
	}
	err = ebpf.Release(netns, pins)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		return &Stays{What: []string{fmt.Sprintf("%v; plumb-proxy --cleanup may, where /proc/sys can be written", err)}, Nothing: len(before) == 0}
	}
	return err
}
