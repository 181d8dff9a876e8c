//go:build linux

package others

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// translators are the hooks at which an address is replaced, either way, or a call denied.
func translators() map[string]ebpf.AttachType {
	all := map[string]ebpf.AttachType{
		"recvmsg4": ebpf.AttachCGroupUDP4Recvmsg, "recvmsg6": ebpf.AttachCGroupUDP6Recvmsg,
		"getpeername4": ebpf.AttachCgroupInet4GetPeername, "getpeername6": ebpf.AttachCgroupInet6GetPeername,
	}
	for hook, at := range socketHooks {
		all[hook] = at
	}
	return all
}

// AtSockets names, in order, the programs that the kernel runs when a socket of a cgroup, which is a folder of
// cgroup2, connects, sends, receives or is asked for its peer: those that are attached to the cgroup itself,
// and those above, of cgroups that it is in (cgroup_bpf of include/linux/bpf-cgroup-defs.h: effective). These
// run after its own: they may deny a call, and replace an address once more. It takes NET_ADMIN; without SYS_ADMIN
// programs have numbers instead of names.
func AtSockets(cgroup string) (own, above []string, err error) {
	fd, err := unix.Open(cgroup, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("look at the sockets' hooks: open cgroup %s: %w", cgroup, err)
	}
	defer unix.Close(fd)
	for hook, at := range translators() {
		attached, err := programsAt(fd, at, 0)
		if err != nil {
			return nil, nil, fmt.Errorf("look at the sockets' hook %s of cgroup %s: %w", hook, cgroup, err)
		}
		all, err := programsAt(fd, at, unix.BPF_F_QUERY_EFFECTIVE)
		if err != nil {
			return nil, nil, fmt.Errorf("look at what runs at the sockets' hook %s of cgroup %s: %w", hook, cgroup, err)
		}
		for _, id := range all {
			line := fmt.Sprintf("%s at hook %s", called(id), hook)
			if slices.Contains(attached, id) {
				own = append(own, line)
			} else {
				above = append(above, line)
			}
		}
	}
	slices.Sort(own)
	slices.Sort(above)
	return own, above, nil
}

// programsAt are the numbers of the programs at a hook; a kernel that has no such hook has none.
func programsAt(fd int, at ebpf.AttachType, flags uint32) (ids []ebpf.ProgramID, err error) {
	res, err := link.QueryPrograms(link.QueryOptions{Target: fd, Attach: at, QueryFlags: flags})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, p := range res.Programs {
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// called is a program's name and whose it is, as far as it can be told.
func called(id ebpf.ProgramID) string {
	name, err := nameOf(id)
	switch who := ofProgram(name); {
	case err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission):
		return fmt.Sprintf("program %d (%v)", id, err)
	case err != nil:
		return fmt.Sprintf("program %d", id)
	case who != "":
		return fmt.Sprintf("program %s (%s)", name, who)
	default:
		return "program " + name
	}
}
