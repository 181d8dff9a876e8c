package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// eachPod calls f with the network namespaces that are files of a folder. One that goes meanwhile is none,
// and neither is a file that is no namespace.
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
	space, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for pods' network namespaces: %w", err)
	}
	defer space.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(space.Fd()), &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		return err
	}
	if err := f(int(space.Fd())); err != nil {
		return fmt.Errorf("in %s: %w", path, err)
	}
	return nil
}
