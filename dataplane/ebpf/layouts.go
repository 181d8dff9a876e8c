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
// warning (goOn says what a form is). The predecessor's folder goes last. Whoever is killed in between leaves both folders, and
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
// that has its own: the first that has the form of this one's.
func inherit(pins string, spec *ebpf.CollectionSpec, names []string, log *slog.Logger) error {
	for _, name := range names {
		paths, err := inLayouts(pins, name)
		if err != nil {
			return err
		}
		if len(paths) == 0 || filepath.Dir(paths[0]) == layoutFolder(pins) {
			continue
		}
		var others error
		for _, path := range paths {
			if err = goOn(path, filepath.Join(layoutFolder(pins), name), spec.Maps[name]); !errors.Is(err, ebpf.ErrMapIncompatible) {
				break
			}
			others = errors.Join(others, err)
		}
		if errors.Is(err, ebpf.ErrMapIncompatible) {
			log.Warn("what another build has remembered has another form, and is forgotten", "map", name, "err", others)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// goOn pins a map of another layout in this one's folder as well. Form is the map's type, its size, its flags, and
// how long keys and values are: what stands in them the kernel tells only who has SYS_ADMIN. So a layout that gives
// a key or value of the same length another meaning is to give the map another name.
func goOn(from, to string, spec *ebpf.MapSpec) error {
	m, err := ebpf.LoadPinnedMap(from, nil)
	if err != nil {
		return fmt.Errorf("open pinned map %s: %w", from, err)
	}
	defer m.Close()
	if err := spec.Compatible(m); err != nil {
		return fmt.Errorf("go on with map %s: %w", from, err)
	}
	if err := pinAnew(to, m.Clone); err != nil {
		return fmt.Errorf("go on with map %s: %w", from, err)
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
