package ebpf_test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// needTCX is for what is asked of tcx alone: the others are held by clsact where there is none.
func needTCX(t *testing.T) {
	t.Helper()
	need.That(t, hasTCX(t), "tcx (Linux 6.6)")
}

func hasTCX(t *testing.T) bool {
	t.Helper()
	has, err := dataplane.HaveTCX()
	if err != nil {
		t.Fatal(err)
	}
	return has
}

// hookAt is where a program is: by tcx, and by a filter.
type hookAt struct {
	tcx    ebpf.AttachType
	parent uint32
}

func hooks() []hookAt {
	return []hookAt{{ebpf.AttachTCXIngress, netlink.HANDLE_MIN_INGRESS}, {ebpf.AttachTCXEgress, netlink.HANDLE_MIN_EGRESS}}
}

func (h hookAt) filters(index int) ([]netlink.Filter, error) {
	return netlink.FilterList(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}, h.parent)
}

// programs is how many a device has, whosever.
func programs(t *testing.T, ns *netns.NS, index int) (n int) {
	t.Helper()
	tcx := hasTCX(t)
	err := ns.Do(func() error {
		for _, h := range hooks() {
			if !tcx {
				there, err := h.filters(index)
				if err != nil {
					return err
				}
				n += len(there)
				continue
			}
			there, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: h.tcx})
			for errors.Is(err, unix.ENOSPC) { // one came between the question how many there are and which
				there, err = link.QueryPrograms(link.QueryOptions{Target: index, Attach: h.tcx})
			}
			if err != nil {
				return err
			}
			n += len(there.Programs)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// foreign are programs that are not ours and return what they are told to.
func foreign(t *testing.T, n int, returns int32) (out []*ebpf.Program) {
	t.Helper()
	for range n {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "foreign", Type: ebpf.SchedCLS, License: "MIT", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, returns), asm.Return()},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		out = append(out, p)
	}
	return out
}

func attachForeign(t *testing.T, ns *netns.NS, index int, programs []*ebpf.Program) {
	t.Helper()
	err := ns.Do(func() error {
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			for _, p := range programs {
				if err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: index, Program: p, Attach: at}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// detach takes a program away from a device's ingress: the first, or that one. Without tcx it is the
// first filter.
func detach(ns *netns.NS, index int, p *ebpf.Program) error {
	return ns.Do(func() error {
		if has, err := dataplane.HaveTCX(); err != nil || !has {
			there, err := hooks()[0].filters(index)
			if err != nil {
				return err
			}
			return netlink.FilterDel(there[0])
		}
		if p == nil {
			there, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXIngress})
			if err != nil {
				return err
			}
			if p, err = ebpf.NewProgramFromID(there.Programs[0].ID); err != nil {
				return err
			}
			defer p.Close()
		}
		return link.RawDetachProgram(link.RawDetachProgramOptions{Target: index, Program: p, Attach: ebpf.AttachTCXIngress})
	})
}
