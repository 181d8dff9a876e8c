package ebpf

import (
	"errors"
	"fmt"
	"net/netip"

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

// devices are those of the namespace that it is called in: with these indexes, or all if only is
// nil.
func devices(own plan.Link, only []int) ([]device, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	defer h.Close()
	links, err := linksOf(h, only)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addrs, err := steady(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	all, err := withMasters(h, links)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
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
		d.stands(l, all, own)
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

// linksOf leaves out those that are gone.
func linksOf(h *netlink.Handle, only []int) (out []netlink.Link, err error) {
	if only == nil {
		return steady(h.LinkList)
	}
	for _, index := range only {
		l, err := h.LinkByIndex(index)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// withMasters are links by their index, and those above them.
func withMasters(h *netlink.Handle, links []netlink.Link) (map[int]netlink.Link, error) {
	all := map[int]netlink.Link{}
	for _, l := range links {
		all[l.Attrs().Index] = l
	}
	for _, l := range links {
		for up := l.Attrs().MasterIndex; up != 0 && all[up] == nil; up = all[up].Attrs().MasterIndex {
			above, err := linksOf(h, []int{up})
			if err != nil {
				return nil, err
			}
			if len(above) == 0 {
				break
			}
			all[up] = above[0]
		}
	}
	return all, nil
}

// address takes the first of each family that may be the source of what is to last: none that
// is not checked yet, or is not to be used for new connections.
func (d *device) address(at netlink.Addr) {
	a, ok := netip.AddrFromSlice(at.IP)
	if a = a.Unmap(); !ok || a.IsLinkLocalUnicast() || at.Scope == unix.RT_SCOPE_HOST {
		return
	}
	if at.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED|unix.IFA_F_DEPRECATED) != 0 || a.Is6() && at.Flags&unix.IFA_F_TEMPORARY != 0 {
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
