package ebpf

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/spaces"
)

// Mount is where a node's bpffs is, as systemd and container runtimes have it, and Root where in it
// the folders of all nodes are.
const (
	Mount = "/sys/fs/bpf"
	Root  = Mount + "/plumbline"
)

// Folder is a namespace's below a root: it is named by the namespace's cookie, which no other
// namespace gets before the next boot, so that two nodes of one kernel never meet in one.
func Folder(root string, netns int) (string, error) {
	cookie, err := cookie(netns)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, strconv.FormatUint(cookie, 10)), nil
}

// cookie is a namespace's number, which no other gets before the next boot.
func cookie(netns int) (cookie uint64, err error) {
	err = spaces.Do(netns, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open socket: %w", err)
		}
		defer unix.Close(fd)
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the network namespace's cookie (Linux 5.14): %w", err)
	}
	return cookie, nil
}

// mounted is a namespace's folder below Root, if that is in a bpffs.
func mounted(netns int) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(Mount, &fs); err != nil || fs.Type != unix.BPF_FS_MAGIC {
		return "", fmt.Errorf("there is no bpffs at %s; plumb-proxy --init-only --backend=ebpf mounts one", Mount)
	}
	return Folder(Root, netns)
}

// MountRoot mounts a bpffs at a folder where none is: the part of a start that needs SYS_ADMIN.
func MountRoot(at string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(at, &fs); err == nil && fs.Type == unix.BPF_FS_MAGIC {
		return nil
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("make %s for bpffs: %w", at, err)
	}
	if err := unix.Mount("bpf", at, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount bpffs at %s: %w", at, err)
	}
	return nil
}
