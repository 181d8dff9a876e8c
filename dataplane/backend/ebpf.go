package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// overEBPF has its pins below ebpf.Root, in a namespace's folder.
func overEBPF(netns int) Backend {
	return Backend{
		Start: func(opts Options, log *slog.Logger) Running {
			cfg := ebpf.Config{
				Logger: log, NetNS: netns, Cgroup: opts.Cgroup, PodSpaces: opts.PodSpaces, ResetTCP: opts.ResetTCP,
				Dropped: ebpfDropped(log), Alter: opts.Alter,
				Elsewhere: func(ctx context.Context, ports [2]uint16) ([]ebpf.Elsewhere, error) {
					return masqueradedByRules(ctx, netns, ports)
				},
			}
			if opts.VerifierLog != "" {
				cfg.Verifier = verifierLog(opts.VerifierLog)
			}
			t := ebpf.New(cfg)
			pins, _ := ebpf.Folder(ebpf.Root, netns) // without one no Apply succeeds, which says why
			keeps := &keepsTranslated{target: t, netns: netns, log: log}
			return Running{
				Target: keeps, Close: t.Close, Watch: keeps.Watch,
				Path:   func(p *plan.Plan, k plan.Key) (string, error) { return ebpf.Path(p, k, pins) },
				Live:   func(p *plan.Plan) (*plan.Plan, []plan.Key, error) { return ebpf.Live(p, pins) },
				Series: ebpfSeries(t), Looks: ebpfLooks(t, netns),
			}
		},
		Clean: func() error { return cleanEBPF(netns) }, Left: func() ([]string, error) { return leftByEBPF(netns) },
		Damage: func() error {
			pins, err := ebpf.Folder(ebpf.Root, netns)
			if err != nil {
				return err
			}
			return errors.Join(ebpf.Clean(netns, pins, true), dropTranslated(netns)) // not the ports: no agent may reserve them
		},
		Render: ebpf.Render, Table: translated,
		Needs: func(context.Context, Options) []node.Capability { return []node.Capability{node.NetAdmin, node.BPF} },
		Keeps: Maps, Forwarded: true,
		NoNode:  "they have been routed before a program of a device sees them, and there are none at sockets",
		Sockets: true,
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

// masqueradedByRules are the connections that conntrack goes on to translate when the rules are gone that
// they came by.
func masqueradedByRules(ctx context.Context, netns int, ports [2]uint16) (out []ebpf.Elsewhere, err error) {
	all, err := conntrack.MasqueradedBy(ctx, netns, ports[0], ports[1])
	for _, m := range all {
		out = append(out, ebpf.Elsewhere(m))
	}
	return out, err
}

// leftByEBPF names as well the ports that it keeps. The table tells that it has run here also where
// its pins cannot be seen.
func leftByEBPF(netns int) ([]string, error) {
	tables, unlisted := leftTranslated(netns)
	pins, err := ebpf.Folder(ebpf.Root, netns)
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 5.14, where no program of it has ever run
		return tables, unlisted
	}
	if err != nil {
		return tables, errors.Join(err, unlisted)
	}
	left, err := ebpf.Left(netns, pins, len(tables) > 0)
	held, unread := ebpf.Held(pins)
	if errors.Is(unread, os.ErrPermission) && len(tables) == 0 { // a bpffs of others', as in a user namespace
		unread = nil
	}
	if held != "" {
		left = append(left, "reserved ports "+held)
	}
	return append(left, tables...), errors.Join(err, unread, unlisted)
}

// cleanEBPF takes away all of it. The table goes last of what serves: it tells who comes after a
// failure that programs may be there. Who may not write sysctls leaves the ports reserved.
func cleanEBPF(netns int) error {
	tables, err := leftTranslated(netns)
	if err != nil {
		return err
	}
	pins, err := ebpf.Folder(ebpf.Root, netns)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return dropTranslated(netns)
	}
	if err != nil {
		return err
	}
	err = ebpf.Clean(netns, pins, len(tables) > 0)
	if unknown := new(ebpf.Unknown); errors.As(err, &unknown) {
		return &Stays{Undone: true, What: append(append(unknown.What, tables...), "plumb-proxy --cleanup may, with CAP_BPF and CAP_SYS_ADMIN, where "+ebpf.Mount+" is the node's")}
	}
	if err == nil {
		err = dropTranslated(netns)
	}
	if err != nil {
		return err
	}
	err = ebpf.Release(netns, pins)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		return &Stays{Undone: true, What: []string{fmt.Sprintf("%v; plumb-proxy --cleanup may, where /proc/sys can be written", err)}}
	}
	return err
}
