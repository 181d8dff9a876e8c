package ebpf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// device is a link of the node, but lo.
type device struct {
	index int
	name  string
	value plumbDevice
}

// devices are those of the namespace that it is called in.
func devices(own plan.Link) ([]device, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	defer h.Close()
	links, err := steady(h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addrs, err := steady(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var out []device
	for _, l := range links {
		a := l.Attrs()
		if a.RawFlags&unix.IFF_LOOPBACK != 0 {
			continue
		}
		d := device{index: a.Index, name: a.Name}
		if a.EncapType == "ether" {
			d.value.L2 = 14
		}
		if own.Is(a.Name) {
			d.value.Flags |= deviceOwnPods
		}
		for _, at := range addrs {
			if at.LinkIndex == a.Index {
				d.address(at)
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// address takes the first of each family.
func (d *device) address(at netlink.Addr) {
	a, ok := netip.AddrFromSlice(at.IP)
	if a = a.Unmap(); !ok || a.IsLinkLocalUnicast() {
		return
	}
	if first := &d.value.Masquerade[family(a)]; *first == (plumbAddr{}) {
		*first = toAddr(a)
	}
}

func family(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}

// steady lists again when the kernel says that something changed in the middle.
func steady[T any](list func() ([]T, error)) ([]T, error) {
	for {
		out, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
}

// hook is a place for a program at a device.
type hook struct {
	at      ebpf.AttachType
	name    string // of the program, and of its pin
	program *ebpf.Program
	before  *ebpf.Program // what a predecessor attached, nil if there was none
}

func (o *plumbObjects) hooks() []hook {
	return []hook{{at: ebpf.AttachTCXIngress, name: "plumb_ingress", program: o.PlumbIngress}, {at: ebpf.AttachTCXEgress, name: "plumb_egress", program: o.PlumbEgress}}
}

// attach sees to it that a device has the program, instead of the predecessor's. It tells
// whether it had not; a device that is gone has it.
func (h hook) attach(d device, w *writer) (lacked bool, err error) {
	there, err := link.QueryPrograms(link.QueryOptions{Target: d.index, Attach: h.at})
	if errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the programs of %s (tcx is of Linux 6.6): %w", d.name, err)
	}
	has := func(p *ebpf.Program) bool {
		id, ok := idOf(p)
		return ok && slices.ContainsFunc(there.Programs, func(a link.AttachedProgram) bool { return a.ID == id })
	}
	if has(h.program) {
		return false, nil
	}
	opts := link.RawAttachProgramOptions{Target: d.index, Program: h.program, Attach: h.at}
	if has(h.before) {
		opts.Anchor = link.ReplaceProgram(h.before)
	}
	if !w.next() {
		return false, w.err
	}
	if err := link.RawAttachProgram(opts); err != nil && !errors.Is(err, unix.ENODEV) {
		return false, fmt.Errorf("attach %s to %s: %w", h.name, d.name, err)
	}
	return true, nil
}

func idOf(p *ebpf.Program) (ebpf.ProgramID, bool) {
	if p == nil {
		return 0, false
	}
	info, err := p.Info()
	if err != nil {
		return 0, false
	}
	return info.ID()
}

// predecessor opens the program that is pinned under a name, nil if there is none.
func predecessor(pins, name string) (*ebpf.Program, error) {
	p, err := ebpf.LoadPinnedProgram(filepath.Join(layoutFolder(pins), name), nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open pinned program %s: %w", name, err)
	}
	return p, nil
}

// pin pins the program in its predecessor's place, unless that is itself.
func (h hook) pin(pins string) error {
	mine, _ := idOf(h.program)
	if there, ok := idOf(h.before); ok && there == mine {
		return nil
	}
	path := filepath.Join(layoutFolder(pins), h.name)
	next := path + "_next"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("unpin %s: %w", next, err)
	}
	if err := h.program.Pin(next); err != nil {
		return fmt.Errorf("pin program %s: %w", h.name, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("pin program %s: %w", h.name, err)
	}
	return nil
}
