package lbprovider

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// haproxyUser is who HAProxy runs as when the provider is root.
const haproxyUser = 65532

// runDir is the directory that the provider shares with one HAProxy:
// configuration and server states go in, sockets are made in it by both.
type runDir struct {
	path     string
	uid, gid int
}

func newRunDir(path string) runDir {
	if os.Geteuid() == 0 {
		return runDir{path, haproxyUser, haproxyUser}
	}
	return runDir{path, os.Geteuid(), os.Getegid()}
}

// owner is the user in the words of instance.Spec.
func (d runDir) owner() string { return fmt.Sprintf("%d:%d", d.uid, d.gid) }

func (d runDir) make() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return fmt.Errorf("make the load balancer's directory: %w", err)
	}
	return d.give(d.path)
}

func (d runDir) give(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Chown(path, d.uid, d.gid); err != nil {
		return fmt.Errorf("give %s to HAProxy's user: %w", path, err)
	}
	return nil
}

// write replaces a file at once, or leaves it alone if nothing changes.
func (d runDir) write(name, text string) error {
	path := filepath.Join(d.path, name)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, []byte(text)) {
		return nil
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := d.give(path + ".new"); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (d runDir) read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(d.path, name))
	return string(b), err
}

func (d runDir) remove() error {
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("remove the load balancer's directory: %w", err)
	}
	return nil
}
