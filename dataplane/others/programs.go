//go:build linux

package others

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// socketHooks are where connect(2) and sendmsg(2) to a Service are turned to its backends.
// systemd has hooks of its own in the root cgroup, and none of these.
var socketHooks = map[string]ebpf.AttachType{
	"connect4": ebpf.AttachCGroupInet4Connect, "connect6": ebpf.AttachCGroupInet6Connect,
	"sendmsg4": ebpf.AttachCGroupUDP4Sendmsg, "sendmsg6": ebpf.AttachCGroupUDP6Sendmsg,
}

// sockets looks at the hooks of the root cgroup.
func sockets(cfg Config) ([]Trace, error) {
	if cfg.Cgroup == "" {
		return nil, nil
	}
	root, err := openHierarchy(cfg.Cgroup)
	if errors.Is(err, unix.ENODEV) { // a kernel without cgroup v2 has no such hooks
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the sockets' hooks: open the root cgroup: %w", err)
	}
	defer unix.Close(root)
	var out []Trace
	for hook, at := range socketHooks {
		names, err := attached(root, at)
		if err != nil {
			return out, fmt.Errorf("look at the sockets' hook %s: %w", hook, err)
		}
		for _, name := range names {
			who := ofProgram(name)
			if who == "" {
				who = "an eBPF program"
			}
			out = append(out, Trace{Who: who, What: fmt.Sprintf("program %s at hook %s of the root cgroup", name, hook)})
		}
	}
	return out, nil
}

// openHierarchy opens the root of cgroup v2. Where nobody has mounted it at the usual
// places, agents that need it mount it elsewhere; so does this, nowhere.
func openHierarchy(path string) (fd int, err error) {
	if dir := hierarchy(path); dir != "" {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
}

// hierarchy is where cgroup v2 is: beside those of cgroup v1 it may be below them.
func hierarchy(path string) string {
	for _, dir := range []string{path, filepath.Join(path, "unified")} {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	return ""
}

// attached are the names of the programs at a hook. A kernel that has no such hook has none.
func attached(target int, at ebpf.AttachType) ([]string, error) {
	res, err := link.QueryPrograms(link.QueryOptions{Target: target, Attach: at})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) { // ENODEV: the link went
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range res.Programs {
		name, err := nameOf(p.ID)
		if errors.Is(err, os.ErrNotExist) { // gone meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

func nameOf(id ebpf.ProgramID) (string, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "", err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return "", err
	}
	if info.Name == "" {
		return fmt.Sprintf("%d", id), nil
	}
	return info.Name, nil
}

// ofProgram is whose a program is, by its name. [cilium/bpf: cil_ since 1.12;
// calico/felix/bpf-gpl: cali_ and calico_]
func ofProgram(name string) string {
	switch {
	case strings.HasPrefix(name, "cil_"):
		return "Cilium"
	case strings.HasPrefix(name, "cali_"), strings.HasPrefix(name, "calico_"):
		return "Calico"
	case strings.HasPrefix(name, "plumb_"):
		return "plumb-ebpf"
	}
	return ""
}

// filters looks at the tc programs of all links: those of tcx, and of classifiers. Cilium
// has some whether it proxies Services or not, Calico only if it does.
func filters(Config) ([]Trace, error) {
	list, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("look at tc programs: list links: %w", err)
	}
	first := map[string]string{} // of each, for pods have a link each
	for _, l := range list {
		names, err := programsOf(l)
		if err != nil {
			return nil, fmt.Errorf("look at the tc programs of %s: %w", l.Attrs().Name, err)
		}
		for _, name := range names {
			if who := ofProgram(name); who != "" && first[who] == "" {
				first[who] = fmt.Sprintf("tc programs, such as %s at link %s", name, l.Attrs().Name)
			}
		}
	}
	var out []Trace
	for who, what := range first {
		out = append(out, Trace{Who: who, What: what, Network: who == "Cilium"})
	}
	return out, nil
}

func programsOf(l netlink.Link) ([]string, error) {
	var out []string
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		names, err := attached(l.Attrs().Index, at)
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		list, err := netlink.FilterList(l, parent)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			if p, ok := f.(*netlink.BpfFilter); ok {
				name, _, _ := strings.Cut(p.Name, ":") // tc and libbpf add the object and the section
				out = append(out, name)
			}
		}
	}
	return out, nil
}
