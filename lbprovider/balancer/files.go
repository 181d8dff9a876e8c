package balancer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// haproxyUser is who HAProxy runs as when the provider is root.
const haproxyUser = 65532

// runDir is the directory of one load balancer. It is the provider's, and HAProxy reads it
// by its group; but for haproxy.OwnDir below it, which is HAProxy's own. In there the
// provider writes nothing, because HAProxy's user may put links to anything in the place
// of anything.
type runDir struct {
	path     string
	uid, gid int // HAProxy's
}

func newRunDir(path string) runDir {
	if os.Geteuid() == 0 && mapped(haproxyUser) {
		return runDir{path, haproxyUser, haproxyUser}
	}
	return runDir{path, os.Geteuid(), os.Getegid()}
}

// mapped says whether a user's id is one in this user namespace (user_namespaces(7)).
func mapped(uid uint64) bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true // a kernel without user namespaces
	}
	for line := range strings.Lines(string(text)) {
		var first, outside, size uint64
		if _, err := fmt.Sscan(line, &first, &outside, &size); err == nil && uid >= first && uid-first < size {
			return true
		}
	}
	return false
}

// owner is the user in the words of instance.Spec.
func (d runDir) owner() string { return fmt.Sprintf("%d:%d", d.uid, d.gid) }

// make leaves a directory that is there as it is. One that is not the provider's (an older
// one gave all of it to HAProxy's user) is made anew.
func (d runDir) make() error {
	ours, err := d.ours()
	if err == nil && !ours {
		err = os.RemoveAll(d.path)
	}
	if err == nil {
		err = os.MkdirAll(d.path, 0o700)
	}
	if err == nil {
		err = give(d.path, os.Geteuid(), d.gid, 0o750)
	}
	own := filepath.Join(d.path, haproxy.OwnDir)
	if err == nil {
		err = os.MkdirAll(own, 0o700)
	}
	if err == nil {
		err = give(own, d.uid, d.gid, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make the load balancer's directory: %w", err)
	}
	return nil
}

// ours says whether what is at the directory's place is the provider's, or nothing.
func (d runDir) ours() (bool, error) {
	st, err := os.Lstat(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	return ok && st.IsDir() && int(owner.Uid) == os.Geteuid(), nil
}

// give is for what lies in a directory of the provider's, where nobody else can put a link.
func give(path string, uid, gid int, mode fs.FileMode) error {
	if err := os.Lchown(path, uid, gid); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// write replaces a file at once, or leaves it alone if nothing changes.
func (d runDir) write(name, text string) error {
	if err := d.replace(name, text); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(d.path, name), err)
	}
	return nil
}

func (d runDir) replace(name, text string) error {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return err
	}
	defer root.Close()
	if old, err := root.ReadFile(name); err == nil && string(old) == text {
		return nil
	}
	next := name + ".new"
	if err := root.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chown(-1, d.gid), f.Chmod(0o640), f.Close()); err != nil {
		return err
	}
	return root.Rename(next, name)
}

func (d runDir) read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(d.path, name))
	return string(b), err
}

// remove takes HAProxy's own directory away from its user first, who could fill it as it is
// emptied: of a HAProxy that was replaced there may be a process left.
func (d runDir) remove() error {
	err := d.takeBack()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.RemoveAll(d.path)
	}
	if err != nil {
		return fmt.Errorf("remove the load balancer's directory: %w", err)
	}
	return nil
}

func (d runDir) takeBack() error {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Lchown(haproxy.OwnDir, os.Geteuid(), os.Getegid()); err != nil {
		return err
	}
	return root.Chmod(haproxy.OwnDir, 0o700)
}
