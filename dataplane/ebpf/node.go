package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// CgroupRoot is where a node's cgroup2 is by the convention of all distributions.
const CgroupRoot = "/sys/fs/cgroup"

// unified is the cgroup2 among those of v1, as systemd mounts it (hybrid hierarchy).
const unified = "unified"

// firstPIDs is the inode of the kernel's first namespace of processes (PROC_PID_INIT_INO of its
// proc_ns.h).
const firstPIDs = 0xEFFFFFFC

// HostCgroup is the cgroup2 of the node that this process is on, where it can be told that the node is
// all of a host: its first process is in the same network namespace. Anywhere else what is at
// CgroupRoot may be that of more than the node.
func HostCgroup() (string, error) {
	var pids unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &pids); err != nil {
		return "", fmt.Errorf("look at the own namespace of processes: %w", err)
	}
	if pids.Ino != firstPIDs {
		return "", errors.New("in a container it cannot be told whose the cgroup2 is")
	}
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
	for _, path := range []string{filepath.Clean(root), filepath.Join(root, unified)} {
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
	err := fmt.Errorf("there is no cgroup2 at %s, nor in its folder %s", root, unified)
	if onlyV1(root) {
		err = fmt.Errorf("%w: %w", err, ErrOnlyV1)
	}
	return "", err
}

// ErrOnlyV1 is in an error of NodeCgroup of a node that has cgroup v1 and no cgroup2 beside it: programs at
// sockets have nothing to be at.
var ErrOnlyV1 = errors.New("the node has cgroup v1 alone")

// onlyV1 tells whether some folder has a hierarchy of cgroup v1.
func onlyV1(root string) bool {
	folders, err := os.ReadDir(root)
	return err == nil && slices.ContainsFunc(folders, func(f os.DirEntry) bool {
		var fs unix.Statfs_t
		return unix.Statfs(filepath.Join(root, f.Name()), &fs) == nil && fs.Type == unix.CGROUP_SUPER_MAGIC
	})
}

// notOnlyOwn tells by whether the mount begins at this process's own cgroup. The kernel's root, which has
// no type, has others below.
func notOnlyOwn(path string) error {
	if _, err := os.Stat(filepath.Join(path, "cgroup.type")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("look for the mount of %s: %w", path, err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("look for the own cgroup: %w", err)
	}
	there, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	is := func(mount string) bool { // by whatever links path leads there
		at, err := os.Stat(mount)
		return err == nil && os.SameFile(at, there)
	}
	if onlyOwn(string(mounts), string(groups), is) {
		return fmt.Errorf("the cgroup2 at %s is this container's: mount the node's there (hostPath %s)", path, CgroupRoot)
	}
	return nil
}

// onlyOwn reads /proc/self/mountinfo and /proc/self/cgroup (proc(5)), which both count from the
// process's namespace of cgroups.
func onlyOwn(mounts, groups string, is func(mount string) bool) bool {
	var own, begins string
	for line := range strings.Lines(groups) {
		if group, ok := strings.CutPrefix(line, "0::"); ok {
			own = strings.TrimSpace(group)
		}
	}
	for line := range strings.Lines(mounts) { // the last one hides those before
		if f := strings.Fields(line); len(f) > 4 && strings.Contains(line, " - cgroup2 ") && is(f[4]) {
			begins = f[3]
		}
	}
	return own != "" && begins == own
}
