//go:build linux

// Ociwrap stands between Docker and runc on a host whose root lacks
// capabilities (seen: CAP_SYS_RESOURCE). There `docker run --privileged`, which
// kind uses, asks runc for every capability the kernel knows, and runc fails
// with "unable to apply caps: operation not permitted".
//
// It is registered with dockerd as an OCI runtime. For `create` and `run` it
// edits config.json of the bundle, for `exec` the --process file: capabilities,
// oom_score_adj and resource limits are brought down to what this process may
// grant. A privileged container also gets the capabilities that Docker before 23.0
// does not know, CAP_BPF among them. Then it becomes runc, with the same arguments. Every other command
// goes to runc untouched. On a host that has all capabilities it lowers nothing.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func main() {
	fmt.Fprintf(os.Stderr, "ociwrap: %v\n", run(os.Args))
	os.Exit(1)
}

// run returns only when runc could not be started.
func run(argv []string) error {
	if err := prepare(argv[1:]); err != nil {
		return err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		runc = "/usr/sbin/runc"
	}
	err = unix.Exec(runc, append([]string{runc}, argv[1:]...), os.Environ())
	return fmt.Errorf("execute %s: %w", runc, err)
}

func prepare(args []string) error {
	target, field := fileToEdit(args)
	if target == "" {
		return nil
	}
	limits, err := ownLimits()
	if err != nil {
		return fmt.Errorf("look at the limits of this process: %w", err)
	}
	if err := editFile(target, field, limits); err != nil {
		return fmt.Errorf("edit %s: %w", target, err)
	}
	return nil
}

// editFile replaces the file by its edited copy, in one rename. A file that is
// not there is left for runc to complain about.
func editFile(path string, field []string, l limits) error {
	old, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	edited, changed, err := edit(old, field, l)
	if err != nil || !changed {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ociwrap-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(edited)
	if err := errors.Join(err, tmp.Chmod(info.Mode().Perm()), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
