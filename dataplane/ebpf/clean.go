package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	id      ebpf.ProgramID
	program *ebpf.Program // nil: it cannot be opened, and may be somebody else's
	others  bool          // it is: ours are pinned
}

func (o ours) String() string {
	if o.program == nil {
		return fmt.Sprintf("program %d at %s, beside %s: whose is not known without SYS_ADMIN", o.id, o.device.name, o.hook)
	}
	return fmt.Sprintf("program %s at %s", o.hook, o.device.name)
}

// Unknown is the error of a Clean that could not tell what is attached, or whose it is, though eBPF
// of ours has run here. The pins stay: by them who may do more finds the programs.
type Unknown struct{ What []string }

func (u *Unknown) Error() string { return strings.Join(u.What, "; ") }

// Clean takes the programs from all devices of a namespace, and the maps; none there is no
// error. Where it fails at one device it goes on with the others, and the pins stay, for the next
// attempt. Connections that the programs translate end. ran says that they have run here though
// there may be no folder of pins; where they have, or there is one, what cannot be told is an Unknown.
func Clean(netns int, pins string, ran bool) error {
	unknown := &Unknown{}
	denied, err := each(netns, pins, func(o ours) error {
		if o.program == nil {
			if !o.others {
				unknown.What = append(unknown.What, o.String())
			}
			return nil
		}
		err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: o.device.index, Program: o.program, Attach: o.at})
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("detach %s from %s: %w", o.hook, o.device.name, err)
		}
		return nil
	}, removeFilters)
	if err != nil {
		return fmt.Errorf("clean eBPF: %w", err)
	}
	if denied != nil {
		unknown.What = append(unknown.What, denied.Error())
	}
	if !has(pins) {
		if ran && !onBPFFS(pins) {
			unknown.What = append(unknown.What, noBPFFS(pins))
		}
	} else if err := removeLinks(pins); errors.Is(err, unix.EPERM) {
		unknown.What = append(unknown.What, err.Error())
	} else if err != nil {
		return fmt.Errorf("clean eBPF: %w", err)
	}
	if len(unknown.What) > 0 && (ran || has(pins)) {
		return unknown
	}
	if err := os.RemoveAll(pins); err != nil {
		return fmt.Errorf("clean eBPF: %w", err)
	}
	return nil
}

func has(pins string) bool {
	_, err := os.Stat(pins)
	return err == nil
}

// onBPFFS tells whether a folder is in a bpffs, or would be.
func onBPFFS(path string) bool {
	for {
		var fs unix.Statfs_t
		err := unix.Statfs(path, &fs)
		if err == nil || path == "/" {
			return fs.Type == unix.BPF_FS_MAGIC
		}
		path = filepath.Dir(path)
	}
}

// noBPFFS says what cannot be told where pins are out of reach: programs at sockets are held by these
// alone.
func noBPFFS(pins string) string {
	return fmt.Sprintf("whether programs are at sockets cannot be told: there is no bpffs at %s", filepath.Dir(pins))
}

// Left names what Clean would remove. Where there is a folder of pins, or ran says that the programs
// have run here, those that cannot be opened may be ours, and are named too; else they are somebody
// else's.
func Left(netns int, pins string, ran bool) ([]string, error) {
	var out []string
	folder := has(pins)
	ran = ran || folder
	denied, err := each(netns, pins, func(o ours) error {
		if o.program != nil || ran {
			out = append(out, o.String())
		}
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
	if denied != nil && ran {
		out = append(out, denied.Error())
	}
	if ran && !folder && !onBPFFS(pins) {
		out = append(out, noBPFFS(pins))
	}
	if folder {
		there, _, err := linked(pins)
		if err != nil {
			return nil, fmt.Errorf("look for eBPF: %w", err)
		}
		for _, name := range there {
			out = append(out, fmt.Sprintf("program %s at the sockets of a cgroup", name))
		}
		out = append(out, "folder "+pins)
	}
	return out, nil
}

// each calls program with every program of ours by tcx: those that are pinned, and those with
// their names, whose pins are lost. The latter takes SYS_ADMIN: without, none but the pinned ones
// can be opened. Then it calls filters with every device. A device that fails stops no other. denied
// says that programs could not be looked for: the process may not use bpf(2).
func each(netns int, pins string, program func(ours) error, filters func(*netlink.Handle, device, []hook) error) (denied, failed error) {
	failed = spaces.Do(netns, func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink socket: %w", err)
		}
		defer nl.Close()
		devs, err := devices("", nil)
		if err != nil {
			return err
		}
		tcx, err := haveTCX()
		if errors.Is(err, errMayNotAsk) {
			denied = fmt.Errorf("whether programs are attached by tcx cannot be told: %w", err)
		} else if err != nil {
			return err
		}
		hooks := (&plumbObjects{}).hooks()
		var failed error
		for i := range hooks {
			if tcx {
				failed = errors.Join(failed, hooks[i].programs(pins, devs, program))
			}
		}
		for _, d := range devs {
			failed = errors.Join(failed, filters(nl, d, hooks))
		}
		return failed
	})
	return denied, failed
}

func (h hook) programs(pins string, devs []device, f func(ours) error) error {
	err := h.meet(pins)
	defer func() { h.leave() }()
	for _, d := range devs {
		err = errors.Join(err, h.each(d, f))
	}
	return err
}

func (h hook) each(d device, f func(ours) error) error {
	there, err := link.QueryPrograms(link.QueryOptions{Target: d.index, Attach: h.at})
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the programs of %s: %w", d.name, err)
	}
	var failed error
	for _, p := range there.Programs {
		o := ours{device: d, hook: h.name, at: h.at, id: p.ID, others: len(h.ids) > 0}
		if i := slices.Index(h.ids, p.ID); i >= 0 {
			o.program = h.before[i]
			failed = errors.Join(failed, f(o))
		} else {
			failed = errors.Join(failed, o.byName(f))
		}
	}
	return failed
}

func (o ours) byName(f func(ours) error) error {
	p, err := ebpf.NewProgramFromID(o.id)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if errors.Is(err, unix.EPERM) {
		return f(o)
	}
	if err != nil {
		return fmt.Errorf("open program %d of %s: %w", o.id, o.device.name, err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil || info.Name != o.hook {
		return err
	}
	o.program = p
	return f(o)
}
