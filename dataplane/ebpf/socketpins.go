package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
)

// Programs at sockets are pinned beside their links, for to open one by its link takes SYS_ADMIN.

func (h socketHook) pin(pins string) string {
	return filepath.Join(layoutFolder(pins), h.name+"_"+build(_SocketBytes))
}

// pin pins the programs by their build, and nobody else's stay.
func (o *socketPrograms) pin(pins string) error {
	if err := unpinPrograms(pins); err != nil {
		return err
	}
	for _, h := range o.hooks() {
		if err := (*h.program).Pin(h.pin(pins)); err != nil {
			return fmt.Errorf("pin program %s: %w", h.name, err)
		}
	}
	return nil
}

// foundSockets is what is pinned, if that is of this build, and all of it works on these maps and on
// such of the sizes that are wanted; else nil.
func foundSockets(pins string, shared *plumbMaps, want *ebpf.CollectionSpec) (*socketObjects, error) {
	o := &socketObjects{}
	whole, err := o.open(pins, want)
	if err == nil && whole {
		whole, err = o.workOn(shared)
	}
	if err != nil || !whole {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *socketObjects) open(pins string, want *ebpf.CollectionSpec) (whole bool, err error) {
	for name, at := range o.socketMaps.pinned() {
		m, err := ebpf.LoadPinnedMap(filepath.Join(layoutFolder(pins), name), nil)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("open pinned map %s: %w", name, err)
		}
		if *at = m; want.Maps[name].Compatible(m) != nil {
			return false, nil
		}
	}
	for _, h := range o.hooks() {
		p, err := ebpf.LoadPinnedProgram(h.pin(pins), nil)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("open pinned program %s: %w", h.name, err)
		}
		*h.program = p
	}
	return true, nil
}

// workOn tells whether the programs' maps are these, but for that of each one's constants.
func (o *socketObjects) workOn(shared *plumbMaps) (bool, error) {
	var ids []ebpf.MapID
	for _, maps := range []map[string]**ebpf.Map{shared.pinned(), o.socketMaps.pinned()} {
		for name, at := range maps {
			info, err := (*at).Info()
			if err != nil {
				return false, fmt.Errorf("read map %s: %w", name, err)
			}
			id, _ := info.ID()
			ids = append(ids, id)
		}
	}
	for _, h := range o.hooks() {
		info, err := (*h.program).Info()
		if err != nil {
			return false, fmt.Errorf("read program %s: %w", h.name, err)
		}
		has, _ := info.MapIDs()
		others := slices.DeleteFunc(has, func(id ebpf.MapID) bool { return slices.Contains(ids, id) })
		if len(others) > 1 {
			return false, nil
		}
	}
	return true, nil
}

// unpinSockets lets everything go that only programs at sockets have, but for their links.
func unpinSockets(pins string) error {
	for name := range (&socketMaps{}).pinned() {
		if err := os.Remove(filepath.Join(layoutFolder(pins), name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("unpin a map: %w", err)
		}
	}
	return unpinPrograms(pins)
}

// unpinPrograms leaves the links.
func unpinPrograms(pins string) error {
	for _, h := range (&socketPrograms{}).hooks() {
		paths, err := filepath.Glob(filepath.Join(layoutFolder(pins), h.name+"_*"))
		if err != nil {
			return fmt.Errorf("look for pinned programs: %w", err)
		}
		for _, path := range paths {
			if path == h.path(pins) {
				continue
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("unpin program %s: %w", h.name, err)
			}
		}
	}
	return nil
}
