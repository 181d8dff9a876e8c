//go:build linux

package others

import (
	"errors"
	"fmt"
	"os"
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
	var fs unix.Statfs_t
	if cfg.Cgroup == "" || unix.Statfs(cfg.Cgroup, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, nil
	}
	dir, err := os.Open(cfg.Cgroup)
	if err != nil {
		return nil, fmt.Errorf("look at the sockets' hooks: %w", err)
	}
	defer dir.Close()
	var out []Trace
	for hook, at := range socketHooks {
		names, err := attached(int(dir.Fd()), at)
		if err != nil {
			return out, fmt.Errorf("look at the sockets' hook %s: %w", hook, err)
		}
		for _, name := range names {
			who := ofProgram(name)
			if who == "" {
				who = "an eBPF program"
			}
			out = append(out, Trace{who, fmt.Sprintf("program %s at hook %s of the root cgroup", name, hook)})
		}
	}
	return out, nil
}

// attached are the names of the programs at a hook. A kernel that has no such hook has none.
func attached(target int, at ebpf.AttachType) ([]string, error) {
	res, err := link.QueryPrograms(link.QueryOptions{Target: target, Attach: at})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
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

// filters looks at the tc programs of all links: those of tcx, and of classifiers.
func filters(Config) ([]Trace, error) {
	list, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("look at tc programs: list links: %w", err)
	}
	var out []Trace
	for _, l := range list {
		names, err := programsOf(l)
		if err != nil {
			return out, fmt.Errorf("look at the tc programs of %s: %w", l.Attrs().Name, err)
		}
		for _, name := range names {
			if who := ofProgram(name); who != "" {
				out = append(out, Trace{who, fmt.Sprintf("program %s at link %s", name, l.Attrs().Name)})
			}
		}
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
