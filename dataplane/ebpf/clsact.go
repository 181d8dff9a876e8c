package ebpf

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Our filters in a clsact qdisc, where there is no tcx: other people's have other handles.
const (
	filterHandle   = 0x504c
	filterPriority = 0x504c
)

// errMayNotAsk says that bpf(2) is denied to the process, by a lack of capabilities or a filter of
// system calls, or that the kernel has none.
var errMayNotAsk = errors.New("bpf(2) is denied")

// haveTCX tells whether the kernel has tcx (Linux 6.6). It asks the kernel itself: link.QueryPrograms
// calls unsupported what was denied.
func haveTCX() (bool, error) {
	const lo = 1
	ask := struct{ target, at, query, flags, ids, more, count, pad uint32 }{target: lo, at: uint32(ebpf.AttachTCXIngress)} // of union bpf_attr
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(&ask)), unsafe.Sizeof(ask))
	switch errno {
	case 0:
		return true, nil
	case unix.EINVAL:
		return false, nil
	case unix.EPERM, unix.ENOSYS:
		return false, fmt.Errorf("ask the kernel for tcx: %w: %w", errMayNotAsk, errno)
	}
	return false, fmt.Errorf("ask the kernel for tcx: %w", errno)
}

func (h hook) parent() uint32 {
	if h.at == ebpf.AttachTCXIngress {
		return netlink.HANDLE_MIN_INGRESS
	}
	return netlink.HANDLE_MIN_EGRESS
}

func (d device) link() netlink.Link {
	return &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: d.index, Name: d.name}}
}

// filters are ours of a hook; none is none, also where the device is gone.
func (h hook) filters(nl *netlink.Handle, d device) (out []*netlink.BpfFilter, err error) {
	all, err := steady(func() ([]netlink.Filter, error) { return nl.FilterList(d.link(), h.parent()) })
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) { // EINVAL: no such qdisc
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list filters of %s: %w", d.name, err)
	}
	for _, f := range all {
		if b, ok := f.(*netlink.BpfFilter); ok && b.Handle == filterHandle && b.Priority == filterPriority && strings.HasPrefix(b.Name, h.name) {
			out = append(out, b)
		}
	}
	return out, nil
}

// attachFilter is attach where there is no tcx. A predecessor's filter has the same handle, and is
// replaced in place.
func (h hook) attachFilter(nl *netlink.Handle, d device, w *writer) (lacked bool, err error) {
	there, err := h.filters(nl, d)
	if err != nil {
		return false, err
	}
	for _, f := range there {
		if f.Id == int(h.id) {
			return false, nil
		}
	}
	if !w.next() {
		return false, w.err
	}
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: d.index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}, QdiscType: "clsact",
	}
	if err := nl.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return false, gone(err, "add a clsact qdisc to %s", d.name)
	}
	err = nl.FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: d.index, Parent: h.parent(), Handle: filterHandle, Priority: filterPriority, Protocol: unix.ETH_P_ALL},
		Fd:          h.program.FD(), Name: h.name, DirectAction: true,
	})
	if err != nil {
		return false, gone(err, "add filter %s to %s", h.name, d.name)
	}
	return true, nil
}

// gone is nil where a device has gone meanwhile.
func gone(err error, format string, args ...any) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// removeFilters takes our filters from a device, and the qdisc if nobody else has one there.
func removeFilters(nl *netlink.Handle, d device, hooks []hook) error {
	removed := false
	for _, h := range hooks {
		there, err := h.filters(nl, d)
		if err != nil {
			return err
		}
		for _, f := range there {
			if err := nl.FilterDel(f); err != nil {
				return gone(err, "delete filter %s of %s", h.name, d.name)
			}
			removed = true
		}
	}
	for _, h := range hooks {
		others, err := steady(func() ([]netlink.Filter, error) { return nl.FilterList(d.link(), h.parent()) })
		if !removed || err != nil || len(others) > 0 {
			return err
		}
	}
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: d.index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}, QdiscType: "clsact",
	}
	if err := nl.QdiscDel(qdisc); err != nil && !errors.Is(err, unix.ENOENT) {
		return gone(err, "delete the clsact qdisc of %s", d.name)
	}
	return nil
}
