package ebpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// hook is a place for a program at a device.
type hook struct {
	at      ebpf.AttachType
	name    string // of the program; its pin's begins so
	program *ebpf.Program
	id      ebpf.ProgramID  // of the program
	before  []*ebpf.Program // what is pinned by a predecessor
	ids     []ebpf.ProgramID
}

func (o *plumbObjects) hooks() []hook {
	return []hook{{at: ebpf.AttachTCXIngress, name: "plumb_ingress", program: o.PlumbIngress}, {at: ebpf.AttachTCXEgress, name: "plumb_egress", program: o.PlumbEgress}}
}

// attach sees to it that a device has the program, instead of the predecessor's, and before
// everybody else's: one of these may end the way of a packet. It tells whether the device had it
// not; a device that is gone has it. other is called with programs that are nobody's as far as is
// known.
func (h hook) attach(d device, w *writer, other func(ebpf.ProgramID)) (lacked bool, err error) {
	lacked, err = h.try(d, w, other)
	if errors.Is(err, unix.ENOENT) { // somebody took the predecessor's away meanwhile
		lacked, err = h.try(d, w, other)
	}
	return lacked, err
}

func (h hook) try(d device, w *writer, other func(ebpf.ProgramID)) (lacked bool, err error) {
	there, err := link.QueryPrograms(link.QueryOptions{Target: d.index, Attach: h.at})
	if errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the programs of %s: %w", d.name, err)
	}
	opts := link.RawAttachProgramOptions{Target: d.index, Program: h.program, Attach: h.at, Anchor: link.Head()}
	has := false
	for _, p := range there.Programs {
		if i := slices.Index(h.ids, p.ID); p.ID == h.id {
			has = true
		} else if i >= 0 {
			opts.Anchor = link.ReplaceProgram(h.before[i])
		} else {
			other(p.ID)
		}
	}
	if has {
		return false, nil
	}
	if !w.next() {
		return false, w.err
	}
	if err := link.RawAttachProgram(opts); err != nil && !errors.Is(err, unix.ENODEV) {
		return false, fmt.Errorf("attach %s to %s: %w", h.name, d.name, err)
	}
	return true, nil
}

// idOf is 0 for a program that does not tell.
func idOf(p *ebpf.Program) ebpf.ProgramID {
	if p == nil {
		return 0
	}
	info, err := p.Info()
	if err != nil {
		return 0
	}
	id, _ := info.ID()
	return id
}
