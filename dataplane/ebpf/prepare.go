package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/dataplane/spaces"
)

// snatPorts are the first and the last one of Config.SNATPorts, where nobody asks for others.
func snatPorts() [2]uint16 { return [2]uint16{16384, 29999} }

const sysctls = "/proc/sys"

// note is a symbolic link beside a namespace's folder of pins, to the ports that Prepare has
// reserved: a bpffs holds no files, but it lasts just as long as the sysctl does.
func note(pins string) string { return pins + "-reserved" }

// Prepare keeps the ports that masqueraded connections get from the programs of a namespace that
// ask for any, beside the ports that others keep, and notes those that nobody else has kept. It
// takes a right that the agent does not have, to write sysctls.
func Prepare(netns int, pins string) error {
	before, err := reserved(pins)
	if err != nil {
		return err
	}
	err = spaces.Do(netns, func() error {
		there, err := node.Reserved(sysctls)
		if err != nil {
			return err
		}
		own := node.PortRange(snatPorts()[0], snatPorts()[1])
		added := own.Without(there)
		if added.String() == "" {
			return nil
		}
		if err := remember(pins, before.With(added)); err != nil {
			return err
		}
		return node.Reserve(sysctls, there.With(own))
	})
	if err != nil {
		return fmt.Errorf("reserve the ports of masqueraded connections: %w", err)
	}
	return nil
}

// remember replaces the note. It comes before the ports are reserved: who ends in between leaves
// none reserved that nobody would give back.
func remember(pins string, added node.Ports) error {
	if err := os.MkdirAll(filepath.Dir(pins), 0o700); err != nil {
		return err
	}
	next := note(pins) + "_next"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(added.String(), next); err != nil {
		return err
	}
	return os.Rename(next, note(pins))
}

// reserved are the ports that Prepare has reserved.
func reserved(pins string) (node.Ports, error) {
	text, err := os.Readlink(note(pins))
	if errors.Is(err, os.ErrNotExist) {
		return node.ParsePorts("")
	}
	if err != nil {
		return nil, fmt.Errorf("read which ports were reserved: %w", err)
	}
	return node.ParsePorts(text)
}

// Release gives back what Prepare has reserved, and nothing that others keep.
func Release(netns int, pins string) error {
	added, err := reserved(pins)
	if err != nil || added.String() == "" {
		return err
	}
	err = spaces.Do(netns, func() error {
		there, err := node.Reserved(sysctls)
		if err != nil {
			return err
		}
		return node.Reserve(sysctls, there.Without(added))
	})
	if err == nil {
		err = os.Remove(note(pins))
	}
	if err != nil {
		return fmt.Errorf("give back the ports of masqueraded connections: %w", err)
	}
	return nil
}

// Unreserved names the ports of masqueraded connections that the node's programs may be given;
// empty: none may.
func Unreserved(netns int) (out string, err error) {
	err = spaces.Do(netns, func() error {
		there, err := node.Reserved(sysctls)
		out = node.PortRange(snatPorts()[0], snatPorts()[1]).Without(there).String()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look at the ports of masqueraded connections: %w", err)
	}
	return out, nil
}

// Held names the ports that Release would give back, empty if there are none.
func Held(pins string) (string, error) {
	added, err := reserved(pins)
	if err != nil {
		return "", err
	}
	return added.String(), nil
}
