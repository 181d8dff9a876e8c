package ebpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/spaces"
)

// Missing names the devices of a namespace that lack a program or their entry, which Dump cannot
// see, and programs at sockets that are not there while others are. Where no maps are pinned nothing is missing.
func Missing(netns int, pins string) (out []string, err error) {
	m, err := open(pins)
	if err != nil || m == nil {
		return nil, err
	}
	defer m.Close()
	s, err := read(m)
	if err != nil {
		return nil, fmt.Errorf("look for what devices lack: %w", err)
	}
	err = spaces.Do(netns, func() error {
		devs, err := devices(s.listing().link, nil)
		if err != nil {
			return err
		}
		for _, d := range devs {
			var there plumbDevice
			err := m.PlumbDevices.Lookup(uint32(d.index), &there)
			if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("read the entry of %s: %w", d.name, err)
			}
			if err != nil || there.Flags != d.value.Flags || there.L2 != d.value.L2 {
				out = append(out, "the entry of "+d.name)
			}
		}
		return lacking(pins, devs, &out)
	})
	if err != nil {
		return nil, fmt.Errorf("look for what devices lack: %w", err)
	}
	_, lack, err := linked(pins)
	if err != nil {
		return nil, fmt.Errorf("look for what sockets lack: %w", err)
	}
	for _, name := range lack {
		out = append(out, fmt.Sprintf("program %s at sockets", name))
	}
	return out, nil
}

func lacking(pins string, devs []device, out *[]string) error {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer nl.Close()
	for _, h := range (&plumbObjects{}).hooks() {
		err := h.meet(pins)
		h.leave() // what is asked are numbers
		if err != nil {
			return err
		}
		for _, d := range devs {
			there, err := link.QueryPrograms(link.QueryOptions{Target: d.index, Attach: h.at})
			if err == nil && slices.ContainsFunc(there.Programs, func(p link.AttachedProgram) bool { return slices.Contains(h.ids, p.ID) }) {
				continue
			}
			filters, err := h.filters(nl, d)
			if err != nil {
				return err
			}
			if len(filters) == 0 {
				*out = append(*out, fmt.Sprintf("program %s at %s", h.name, d.name))
			}
		}
	}
	return nil
}
