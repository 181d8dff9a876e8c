package ebpf

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
)

// A layout has a folder of its own among a namespace's pins. Who comes with another one than his
// predecessor fills new maps while that one's programs serve, and then puts his own programs in their
// place, device by device and link by link. What the programs remember - connections, clients, what
// sockets asked for - he does not copy but goes on with, in the same maps: so what begins while some
// devices have the old programs and others the new ones is known to both. A layout that gives these
// maps another form is to say what becomes of what they hold; as it is, that is forgotten, with a
// warning. The predecessor's folder goes last. Whoever is killed in between leaves both folders, and
// any successor finds all programs and links that are attached.

// layoutFolder is that of this layout.
func layoutFolder(pins string) string { return filepath.Join(pins, layout) }

// inLayouts are the pins of a name in the folders of all layouts, those of this one first.
func inLayouts(pins, pattern string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(pins, "v*", pattern))
	if err != nil {
		return nil, fmt.Errorf("look for pins: %w", err)
	}
	rank := func(path string) int {
		if filepath.Dir(path) == layoutFolder(pins) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(paths, func(a, b string) int { return rank(a) - rank(b) })
	return paths, nil
}

// inherited are the maps that the programs of devices fill.
func inherited() []string {
	return []string{
		plumbMapPlumbAffinity, plumbMapPlumbFlows, plumbMapPlumbFrags, plumbMapPlumbPeers,
		plumbMapPlumbCounts, plumbMapPlumbTallies,
	}
}

// inherit pins the maps of these names that another layout has in the folder of this one as well, unless
// that has its own.
func inherit(pins string, spec *ebpf.CollectionSpec, names []string, log *slog.Logger) error {
	for _, name := range names {
		paths, err := inLayouts(pins, name)
		if err != nil {
			return err
		}
		if len(paths) == 0 || filepath.Dir(paths[0]) == layoutFolder(pins) {
			continue
		}
		m, err := ebpf.LoadPinnedMap(paths[0], nil)
		if err != nil {
			return fmt.Errorf("open pinned map %s: %w", paths[0], err)
		}
		err = spec.Maps[name].Compatible(m)
		if err == nil {
			err = pinAnew(filepath.Join(layoutFolder(pins), name), m.Clone)
		} else if errors.Is(err, ebpf.ErrMapIncompatible) {
			log.Warn("what another build has remembered has another form, and is forgotten", "map", paths[0], "err", err)
			err = nil
		}
		closeAll(m)
		if err != nil {
			return fmt.Errorf("go on with map %s: %w", paths[0], err)
		}
	}
	return nil
}

// dropOtherLayouts takes the folders of other layouts away, whose programs are at work nowhere any more.
func dropOtherLayouts(pins string) error {
	folders, err := filepath.Glob(filepath.Join(pins, "v*"))
	if err != nil {
		return fmt.Errorf("look for other layouts: %w", err)
	}
	for _, folder := range folders {
		if folder == layoutFolder(pins) {
			continue
		}
		for _, h := range (&socketPrograms{}).hooks() {
			err := h.removeAt(filepath.Join(folder, filepath.Base(h.path(pins)))) // of one that was killed while it attached
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove what another layout has pinned: %w", err)
		}
	}
	return nil
}
