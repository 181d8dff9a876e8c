package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Programs are at a cgroup by links, which nothing but their pins holds: a link ends with its pin, and
// stays when the process ends that made it.

func (h socketHook) path(pins string) string {
	return filepath.Join(layoutFolder(pins), h.name+"_link")
}

// pinnedLink is nil if there is none; at is the cgroup that it is attached to, 0 for none any more.
func (h socketHook) pinnedLink(pins string) (l link.Link, program ebpf.ProgramID, at uint64, err error) {
	l, err = link.LoadPinnedLink(h.path(pins), nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, 0, nil
	}
	if err != nil {
		return nil, 0, 0, fmt.Errorf("open pinned link of %s: %w", h.name, err)
	}
	info, err := l.Info()
	if err != nil {
		return nil, 0, 0, errors.Join(fmt.Errorf("read the link of %s: %w", h.name, err), l.Close())
	}
	if c := info.Cgroup(); c != nil {
		at = c.CgroupId
	}
	return l, info.Program, at, nil
}

// attach sees to it that a cgroup has the program, instead of a predecessor's, and tells whether it
// had none.
func (h socketHook) attach(pins, cgroup string, w *writer) (lacked bool, err error) {
	var st unix.Stat_t
	if err := unix.Stat(cgroup, &st); err != nil {
		return false, fmt.Errorf("look at cgroup %s: %w", cgroup, err)
	}
	was, program, at, err := h.pinnedLink(pins)
	if err != nil {
		return false, err
	}
	if was != nil {
		defer was.Close()
	}
	if was != nil && at == st.Ino {
		if program == idOf(*h.program) || !w.next() {
			return false, w.err
		}
		if err := was.Update(*h.program); err != nil {
			return false, fmt.Errorf("replace %s at cgroup %s: %w", h.name, cgroup, err)
		}
		return false, nil
	}
	if !w.next() {
		return false, w.err
	}
	now, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: h.at, Program: *h.program})
	if err != nil {
		return false, fmt.Errorf("attach %s to cgroup %s: %w", h.name, cgroup, err)
	}
	defer now.Close()
	if err := h.remove(pins); err != nil { // of another cgroup, or of one that is gone
		return false, err
	}
	if err := now.Pin(h.path(pins)); err != nil {
		return false, fmt.Errorf("pin the link of %s: %w", h.name, err)
	}
	return true, nil
}

// remove takes the program from its cgroup at once, where a link whose pin goes ends some time later.
func (h socketHook) remove(pins string) error {
	l, _, _, err := h.pinnedLink(pins)
	if l == nil {
		return err
	}
	defer l.Close()
	if err := l.Detach(); err != nil {
		return fmt.Errorf("detach %s from its cgroup: %w", h.name, err)
	}
	if err := os.Remove(h.path(pins)); err != nil {
		return fmt.Errorf("unpin the link of %s: %w", h.name, err)
	}
	return nil
}

// removeLinks takes all programs from their cgroup, the last attached first.
func removeLinks(pins string) (err error) {
	for _, h := range slices.Backward((&socketPrograms{}).hooks()) {
		err = errors.Join(err, h.remove(pins))
	}
	return err
}

// attachSockets is called with mu held. Where no cgroup is given a predecessor's programs go, and what
// they have noted: without them nobody says when a socket is closed.
func (t *Target) attachSockets() (damaged bool, err error) {
	w := &writer{fault: t.cfg.Fault}
	if t.socks == nil {
		return false, errors.Join(removeLinks(t.cfg.Pins), unpinSockets(t.cfg.Pins))
	}
	for _, h := range t.socks.hooks() {
		lacked, failed := h.attach(t.cfg.Pins, t.cfg.Cgroup, w)
		damaged, err = damaged || lacked && t.atSockets, errors.Join(err, failed)
	}
	t.atSockets = t.atSockets || err == nil
	return damaged, err
}

// linked are the programs at sockets that have a pinned link, and those that lack theirs while
// others have one.
func linked(pins string) (there, lacking []string, err error) {
	for _, h := range (&socketPrograms{}).hooks() {
		l, _, at, failed := h.pinnedLink(pins)
		if failed != nil {
			return nil, nil, failed
		}
		if l != nil {
			failed = l.Close()
		}
		if at != 0 {
			there = append(there, h.name)
		} else {
			lacking = append(lacking, h.name)
		}
		err = errors.Join(err, failed)
	}
	if len(there) == 0 {
		lacking = nil
	}
	return there, lacking, err
}
