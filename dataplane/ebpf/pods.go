package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// eachPod calls f with the network namespaces that are files of a folder. One that goes meanwhile is none,
// and neither is a file that is none of network.
func eachPod(folder string, f func(netns int) error) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("look for pods' network namespaces: %w", err)
	}
	for _, file := range files {
		err = errors.Join(err, inPod(filepath.Join(folder, file.Name()), f))
	}
	return err
}

func inPod(path string, f func(netns int) error) error {
	space, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // of a pipe nobody waits for the other end
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for pods' network namespaces: %w", err)
	}
	defer space.Close()
	// ioctl_ns(2), Linux 4.11; what is no namespace does not know the question.
	if kind, err := unix.IoctlRetInt(int(space.Fd()), unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return nil //nolint:nilerr // passed over
	}
	if err := f(int(space.Fd())); err != nil {
		return fmt.Errorf("in %s: %w", path, err)
	}
	return nil
}
