package ebpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/spaces"
)

// seen are the devices of the node: those with these indexes, or all if only is nil.
func (t *Target) seen(own plan.Link, only []int) (out []device, err error) {
	err = spaces.Do(t.cfg.NetNS, func() (err error) {
		out, err = devices(own, only)
		return err
	})
	return out, err
}

// attach gives devices their entries and programs, and takes the entries of those that are gone:
// those with these indexes, or all if only is nil. A device where that fails stops no other.
// damaged says that one had lost a program. The devices are listed with mu held: what one look
// says of a device, an earlier one never takes back.
func (t *Target) attach(only []int) (damaged bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs == nil {
		return false, nil
	}
	devs, err := t.seen(t.links, only)
	if err != nil {
		return false, err
	}
	if err := t.describe(devs, only); err != nil {
		return false, err
	}
	hooks := t.objs.hooks()
	defer func() {
		for _, h := range hooks {
			h.leave()
		}
	}()
	for i := range hooks {
		if err := hooks[i].begin(t.cfg.Pins, t.alone); err != nil {
			return false, err
		}
	}
	damaged, err = t.attachTo(devs, hooks, only == nil)
	t.ready = true
	if only != nil {
		return damaged, err
	}
	lost, failed := t.attachSockets()
	damaged = damaged || lost
	if t.loose = nil; t.alone && errors.Is(failed, errNoPins) { // all else is at work: Unpinnable says so
		t.loose, failed = failed, nil
	}
	if err = errors.Join(err, failed); err != nil {
		return damaged, err
	}
	if t.alone {
		return damaged, nil
	}
	for _, h := range hooks {
		if err := h.pin(t.cfg.Pins); err != nil {
			return damaged, err
		}
	}
	if err := dropOtherLayouts(t.cfg.Pins); err != nil {
		return damaged, err
	}
	t.alone = true
	return damaged, nil
}

// attachTo is called with mu held. all says that there are no other devices. All get what works at
// egress first, which does nothing to a connection that no ingress has begun: else one that began
// before the endpoint's device had its program would be masqueraded in the middle, and break.
func (t *Target) attachTo(devs []device, hooks []hook, all bool) (damaged bool, err error) {
	had := t.had
	if all || had == nil {
		t.had = map[int]bool{}
	}
	inside := spaces.Do(t.cfg.NetNS, func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink socket: %w", err)
		}
		defer nl.Close()
		var failed error
		lacks := map[int]bool{}
		for _, h := range slices.Backward(hooks) {
			for _, d := range devs {
				lacked, err := t.attachOne(nl, h, d)
				failed = errors.Join(failed, err)
				damaged, lacks[d.index] = damaged || lacked && had[d.index], lacks[d.index] || err != nil
			}
		}
		for _, d := range devs {
			t.had[d.index] = !lacks[d.index]
		}
		return failed
	})
	return damaged, inside
}

func (t *Target) attachOne(nl *netlink.Handle, h hook, d device) (lacked bool, err error) {
	w := &writer{fault: t.cfg.Fault}
	if !t.tcx {
		return h.attachFilter(nl, d, w)
	}
	return h.attach(d, w, func(id ebpf.ProgramID) {
		if !t.alone {
			t.log.Info("a device has another program, whose is not known", "device", d.name, "beside", h.name, "id", id)
		}
	})
}

// describe is called with mu held.
func (t *Target) describe(devs []device, only []int) error {
	w, m := &writer{fault: t.cfg.Fault}, t.objs.PlumbDevices
	there := map[uint32]plumbDevice{}
	for _, index := range only {
		var v plumbDevice
		if err := m.Lookup(uint32(index), &v); err == nil {
			there[uint32(index)] = v
		} else if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read the entry of device %d: %w", index, err)
		}
	}
	if only == nil {
		if err := entries(m, func(k uint32, v plumbDevice) { there[k] = v }); err != nil {
			return fmt.Errorf("devices: %w", err)
		}
	}
	gone := map[uint32]bool{}
	for k := range there {
		gone[k] = true
	}
	for _, d := range devs {
		delete(gone, uint32(d.index))
	}
	for k := range gone { // first: it makes room
		drop(w, m, k)
	}
	for _, d := range devs {
		k := uint32(d.index)
		if had, is := there[k]; !is || had != d.value {
			put(w, m, k, d.value)
		}
		w.err = t.roomless(w.err, "device", d.name)
	}
	return w.err
}

// roomless tells what a map of the node's own has no room for, which stops nothing else.
func (t *Target) roomless(err error, args ...any) error {
	if !full(err) {
		return err
	}
	t.log.Error("part of the node has no room in the maps", append(args, "err", err)...)
	return nil
}
