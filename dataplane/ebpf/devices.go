package ebpf

import (
	"crypto/sha256"
	"encoding/hex"
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
	byIndex := map[int]netlink.Link{}
	for _, l := range links {
		byIndex[l.Attrs().Index] = l
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
		d.stands(l, byIndex, own)
		for _, at := range addrs {
			if at.LinkIndex == a.Index {
				d.address(at)
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// stands takes the place of a link among the others: a program of a bridge's port sees what goes to
// the bridge before that does.
func (d *device) stands(l netlink.Link, all map[int]netlink.Link, own plan.Link) {
	copy(d.value.Mac[:], l.Attrs().HardwareAddr)
	for range len(all) {
		a := l.Attrs()
		if own.Is(a.Name) {
			d.value.Flags |= deviceOwnPods
		}
		master, ok := all[a.MasterIndex]
		if !ok {
			return
		}
		if l = master; l.Type() == "bridge" {
			copy(d.value.Mac[:], l.Attrs().HardwareAddr)
		}
	}
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
	name    string // of the program; its pin's begins so
	program *ebpf.Program
	before  []*ebpf.Program // what is pinned by a predecessor
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
		return false, fmt.Errorf("look at the programs of %s: %w", d.name, err)
	}
	has := func(p *ebpf.Program) bool {
		id, ok := idOf(p)
		return ok && slices.ContainsFunc(there.Programs, func(a link.AttachedProgram) bool { return a.ID == id })
	}
	if has(h.program) {
		return false, nil
	}
	opts := link.RawAttachProgramOptions{Target: d.index, Program: h.program, Attach: h.at}
	if i := slices.IndexFunc(h.before, has); i >= 0 {
		opts.Anchor = link.ReplaceProgram(h.before[i])
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

// build tells programs of one object from those of another: it is in the names of their pins.
func build() string {
	sum := sha256.Sum256(_PlumbBytes)
	return hex.EncodeToString(sum[:8])
}

func (h hook) path(pins string) string {
	return filepath.Join(layoutFolder(pins), h.name+"_"+build())
}

// pinned calls f with every program that is pinned for the hook, of whatever build.
func (h hook) pinned(pins string, f func(path string, p *ebpf.Program) error) error {
	paths, err := filepath.Glob(filepath.Join(layoutFolder(pins), h.name+"_*"))
	if err != nil {
		return fmt.Errorf("look for pinned programs: %w", err)
	}
	for _, path := range paths {
		p, err := ebpf.LoadPinnedProgram(path, nil)
		if err != nil {
			return fmt.Errorf("open pinned program %s: %w", path, err)
		}
		if err := f(path, p); err != nil {
			return err
		}
	}
	return nil
}

// meet opens what predecessors have pinned; leave closes it.
func (h *hook) meet(pins string) error {
	return h.pinned(pins, func(_ string, p *ebpf.Program) error { h.before = append(h.before, p); return nil })
}

func (h *hook) leave() {
	for _, p := range h.before {
		_ = p.Close() // of a descriptor that was only read
	}
}

// pin pins the program, and nothing else stays pinned for the hook.
func (h hook) pin(pins string) error {
	mine, _ := idOf(h.program)
	there := false
	err := h.pinned(pins, func(path string, p *ebpf.Program) error {
		defer p.Close()
		if id, _ := idOf(p); id == mine && path == h.path(pins) {
			there = true
			return nil
		}
		return os.Remove(path)
	})
	if err == nil && !there {
		err = h.program.Pin(h.path(pins))
	}
	if err != nil {
		return fmt.Errorf("pin program %s: %w", h.name, err)
	}
	return nil
}
