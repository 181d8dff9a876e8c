package ebpf

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/spaces"
)

// ours is one program of ours at a device.
type ours struct {
	device  device
	hook    string
	at      ebpf.AttachType
	program *ebpf.Program
}

// Clean takes the programs from all devices of a namespace, and the maps; none there is no
// error. Connections that they translate end.
func Clean(netns int, pins string) error {
	err := each(netns, pins, func(o ours) error {
		err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: o.device.index, Program: o.program, Attach: o.at})
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("detach %s from %s: %w", o.hook, o.device.name, err)
		}
		return nil
	}, removeFilters)
	if err != nil {
		return fmt.Errorf("clean eBPF: %w", err)
	}
	if err := os.RemoveAll(pins); err != nil {
		return fmt.Errorf("clean eBPF: %w", err)
	}
	return nil
}

// Left names what Clean would remove.
func Left(netns int, pins string) ([]string, error) {
	var out []string
	err := each(netns, pins, func(o ours) error {
		out = append(out, fmt.Sprintf("program %s at %s", o.hook, o.device.name))
		return nil
	}, func(nl *netlink.Handle, d device, hooks []hook) error {
		for _, h := range hooks {
			there, err := h.filters(nl, d)
			if err != nil {
				return err
			}
			for range there {
				out = append(out, fmt.Sprintf("filter %s at %s", h.name, d.name))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for eBPF: %w", err)
	}
	if _, err := os.Stat(pins); err == nil {
		out = append(out, "folder "+pins)
	}
	return out, nil
}

// each calls program with every program of ours by tcx: those that are pinned, and those with
// their names, whose pins are lost. The latter takes SYS_ADMIN, and without is left out. Then it
// calls filters with every device.
func each(netns int, pins string, program func(ours) error, filters func(*netlink.Handle, device, []hook) error) error {
	return spaces.Do(netns, func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink socket: %w", err)
		}
		defer nl.Close()
		devs, err := devices("")
		if err != nil {
			return err
		}
		hooks := (&plumbObjects{}).hooks()
		tcx, err := haveTCX()
		for i := range hooks {
			if err != nil || !tcx {
				break
			}
			err = hooks[i].programs(pins, devs, program)
		}
		for _, d := range devs {
			if err != nil {
				break
			}
			err = filters(nl, d, hooks)
		}
		return err
	})
}

func (h hook) programs(pins string, devs []device, f func(ours) error) error {
	defer h.leave()
	if err := h.meet(pins); err != nil {
		return err
	}
	for _, d := range devs {
		if err := h.each(d, f); err != nil {
			return err
		}
	}
	return nil
}

func (h hook) each(d device, f func(ours) error) error {
	there, err := link.QueryPrograms(link.QueryOptions{Target: d.index, Attach: h.at})
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the programs of %s: %w", d.name, err)
	}
	for _, p := range there.Programs {
		is := func(b *ebpf.Program) bool { id, ok := idOf(b); return ok && id == p.ID }
		if i := slices.IndexFunc(h.before, is); i >= 0 {
			err = f(ours{d, h.name, h.at, h.before[i]})
		} else {
			err = h.byName(d, p.ID, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h hook) byName(d device, id ebpf.ProgramID, f func(ours) error) error {
	p, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, unix.EPERM) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open program %d of %s: %w", id, d.name, err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil || info.Name != h.name {
		return err
	}
	return f(ours{d, h.name, h.at, p})
}
