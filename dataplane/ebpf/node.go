package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CgroupRoot is where a node's cgroup2 is by the convention of all distributions.
const CgroupRoot = "/sys/fs/cgroup"

// unified is the cgroup2 among those of v1, as systemd mounts it (hybrid hierarchy).
const unified = "unified"

// HostCgroup is the cgroup2 of the node that this process is on, where that is all of a host: its first
// process is in the same network namespace.
func HostCgroup() (string, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return "", fmt.Errorf("look at the own network namespace: %w", err)
	}
	first, err := os.Readlink("/proc/1/ns/net")
	if err != nil {
		return "", fmt.Errorf("look at the network namespace of process 1: %w", err)
	}
	if own != first {
		return "", fmt.Errorf("%s is of the host, of which this network namespace is a part", CgroupRoot)
	}
	return NodeCgroup(CgroupRoot)
}

// NodeCgroup is a node's cgroup2 as it is seen at root: root itself or, where the controllers are
// those of cgroup v1, its folder unified. One that is only the container's that this process runs in
// is an error: the sockets of the node and of its pods are elsewhere.
func NodeCgroup(root string) (string, error) {
	for _, path := range []string{root, filepath.Join(root, unified)} {
		var fs unix.Statfs_t
		err := unix.Statfs(path, &fs)
		if errors.Is(err, unix.ENOENT) || err == nil && fs.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("look at %s: %w", path, err)
		}
		return path, notOnlyOwn(path)
	}
	return "", fmt.Errorf("there is no cgroup2 at %s, nor in its folder %s", root, unified)
}

// notOnlyOwn tells by the cgroup namespace: in one that is not the kernel's first the mount's root is
// this process's own where that is at the root of its namespace.
func notOnlyOwn(path string) error {
	first, err := firstCgroups()
	if err != nil || first {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("look for the mount of %s: %w", path, err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("look for the own cgroup: %w", err)
	}
	if onlyOwn(string(mounts), string(groups), path) {
		return fmt.Errorf("the cgroup2 at %s is this container's: mount the node's there (hostPath %s)", path, CgroupRoot)
	}
	return nil
}

// onlyOwn reads /proc/self/mountinfo and /proc/self/cgroup (proc(5)).
func onlyOwn(mounts, groups, path string) bool {
	own := false
	for line := range strings.Lines(groups) {
		own = own || strings.TrimSpace(line) == "0::/"
	}
	whole := false
	for line := range strings.Lines(mounts) { // the last one hides those before
		if f := strings.Fields(line); len(f) > 4 && f[4] == path {
			whole = f[3] == "/"
		}
	}
	return own && whole
}

// firstCgroupNamespace is the inode of the one that the kernel starts with
// (PROC_CGROUP_INIT_INO of its proc_ns.h).
const firstCgroupNamespace = 0xEFFFFFFB

func firstCgroups() (bool, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/cgroup", &st); err != nil {
		return false, fmt.Errorf("look at the cgroup namespace: %w", err)
	}
	return st.Ino == firstCgroupNamespace, nil
}

// MountCgroup gives a node whose controllers are those of cgroup v1 its cgroup2, in the folder unified
// of root, where there is none: a part of a start that needs SYS_ADMIN. In a namespace of cgroups
// that is not the first what is mounted would be more than this node's, or less, so nothing is.
func MountCgroup(root string) error {
	first, err := firstCgroups()
	if err != nil || !first {
		return err
	}
	if _, err := NodeCgroup(root); err == nil {
		return nil
	}
	at := filepath.Join(root, unified)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("make a folder for cgroup2: %w", err)
	}
	if err := unix.Mount("cgroup2", at, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount cgroup2 at %s: %w", at, err)
	}
	return nil
}
