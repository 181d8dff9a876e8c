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

// pinnedLink is that of this layout, or of another if there is none; nil: of none. at is the cgroup that it
// is attached to, 0 for none any more.
func (h socketHook) pinnedLink(pins string) (l link.Link, program ebpf.ProgramID, at uint64, err error) {
	paths, err := inLayouts(pins, filepath.Base(h.path(pins)))
	if err != nil || len(paths) == 0 {
		return nil, 0, 0, err
	}
	l, err = link.LoadPinnedLink(paths[0], nil)
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
		return false, h.update(was, program, pins, cgroup, w)
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

// update puts the program in place of a predecessor's, whose link is then this layout's.
func (h socketHook) update(l link.Link, program ebpf.ProgramID, pins, cgroup string, w *writer) error {
	if program != idOf(*h.program) {
		if !w.next() {
			return w.err
		}
		if err := l.Update(*h.program); err != nil {
			return fmt.Errorf("replace %s at cgroup %s: %w", h.name, cgroup, err)
		}
	}
	if err := l.Pin(h.path(pins)); err != nil { // which moves that of another layout
		return fmt.Errorf("pin the link of %s: %w", h.name, err)
	}
	return nil
}

// remove takes the program from its cgroup at once, where a link whose pin goes ends some time later.
func (h socketHook) remove(pins string) error {
	paths, err := inLayouts(pins, filepath.Base(h.path(pins)))
	for _, path := range paths {
		err = errors.Join(err, h.removeAt(path))
	}
	return err
}

func (h socketHook) removeAt(path string) error {
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return fmt.Errorf("open pinned link of %s: %w", h.name, err)
	}
	defer l.Close()
	if err := l.Detach(); err != nil {
		return fmt.Errorf("detach %s from its cgroup: %w", h.name, err)
	}
	if err := os.Remove(path); err != nil {
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
// they have noted: without them nobody says when a socket is closed. Where links cannot be pinned none is
// made, for it would end at once.
func (t *Target) attachSockets() (damaged bool, err error) {
	w := &writer{fault: t.cfg.Fault}
	if t.socks == nil {
		return false, errors.Join(removeLinks(t.cfg.Pins), unpinSockets(t.cfg.Pins))
	}
	if err := mayPin(layoutFolder(t.cfg.Pins)); err != nil {
		return false, fmt.Errorf("attach the programs at sockets: %w", err)
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
