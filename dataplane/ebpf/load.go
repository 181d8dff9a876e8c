package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
)

// nodeRoom is how many addresses of the node there is room for, beside those of frontends.
const nodeRoom = 1 << 10

// spec is the collection with its sizes.
func (z Sizes) spec() (*ebpf.CollectionSpec, error) {
	s, err := loadPlumb()
	if err != nil {
		return nil, fmt.Errorf("read the programs: %w", err)
	}
	for name, n := range map[string]uint32{
		plumbMapPlumbDevices: 1 << 14, plumbMapPlumbNetworks: 1 << 10,
		plumbMapPlumbAddrs: z.Frontends + nodeRoom, plumbMapPlumbFronts: z.Frontends, plumbMapPlumbTallies: z.Frontends,
		plumbMapPlumbSlots: z.Endpoints, plumbMapPlumbMembers: z.Endpoints, plumbMapPlumbSources: z.Sources,
		plumbMapPlumbAffinity: z.Clients, plumbMapPlumbFlows: z.Connections, plumbMapPlumbFrags: max(1024, z.Connections/16),
	} {
		s.Maps[name].MaxEntries = n
	}
	return s, nil
}

// load opens the programs and maps that are pinned, where they are of this build and size; else it
// loads the programs over the maps that are there, or over new ones. Maps of other sizes are
// replaced: what they remember of connections and clients is lost.
func load(cfg Config) (*plumbObjects, error) {
	folder := layoutFolder(cfg.Pins)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of pins: %w", err)
	}
	spec, err := cfg.Sizes.spec()
	if err != nil {
		return nil, err
	}
	opts := &ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: folder}}
	if cfg.Alter != nil {
		if err := cfg.Alter(spec); err != nil {
			return nil, err
		}
	}
	if cfg.Verifier != nil {
		opts.Programs.LogLevel = ebpf.LogLevelInstruction | ebpf.LogLevelStats
	}
	if cfg.Verifier == nil && cfg.Alter == nil {
		if objs, err := found(cfg.Pins, spec); objs != nil {
			return objs, nil
		} else if err != nil {
			cfg.Logger.Info("what is pinned cannot be used as it is", "folder", folder, "err", err)
		}
	}
	if err := inherit(cfg.Pins, spec, inherited(), cfg.Logger); err != nil {
		return nil, err
	}
	objs := &plumbObjects{}
	err = spec.LoadAndAssign(objs, opts)
	if errors.Is(err, ebpf.ErrMapIncompatible) {
		cfg.Logger.Warn("the maps that are there are of another size: new ones, open connections end", "folder", folder)
		for name := range spec.Maps {
			if err := os.Remove(filepath.Join(folder, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("unpin a map: %w", err)
			}
		}
		err = spec.LoadAndAssign(objs, opts)
	}
	if failed := cfg.tellVerifier(objs, err); err == nil && failed != nil {
		cfg.Logger.Warn("the programs are loaded all the same", "err", failed)
	}
	if err != nil {
		return nil, notLoaded(explained(err, features.HaveProgramHelper, mayPerfmon()))
	}
	return objs, nil
}

// found is what is pinned, if that is all there is to load.
func found(pins string, spec *ebpf.CollectionSpec) (*plumbObjects, error) {
	m, err := open(pins)
	if m == nil {
		return nil, err
	}
	objs := &plumbObjects{plumbMaps: *m}
	for name, at := range m.pinned() {
		if (*at).MaxEntries() != spec.Maps[name].MaxEntries {
			return nil, m.Close()
		}
	}
	for _, h := range objs.hooks() {
		p, err := ebpf.LoadPinnedProgram(h.path(pins), nil)
		if errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(objs.plumbPrograms.Close(), m.Close())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open pinned program %s: %w", h.name, err), objs.plumbPrograms.Close(), m.Close())
		}
		if h.at == ebpf.AttachTCXIngress {
			objs.PlumbIngress = p
		} else {
			objs.PlumbEgress = p
		}
	}
	return objs, nil
}

// pinned are the maps that have a pin, by its name.
func (m *plumbMaps) pinned() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{
		plumbMapPlumbAddrs: &m.PlumbAddrs, plumbMapPlumbAffinity: &m.PlumbAffinity, plumbMapPlumbConfig: &m.PlumbConfig,
		plumbMapPlumbCounts: &m.PlumbCounts, plumbMapPlumbDevices: &m.PlumbDevices, plumbMapPlumbFlows: &m.PlumbFlows,
		plumbMapPlumbFrags: &m.PlumbFrags, plumbMapPlumbFronts: &m.PlumbFronts, plumbMapPlumbMembers: &m.PlumbMembers,
		plumbMapPlumbNetworks: &m.PlumbNetworks, plumbMapPlumbPeers: &m.PlumbPeers, plumbMapPlumbSamples: &m.PlumbSamples, plumbMapPlumbTallies: &m.PlumbTallies, plumbMapPlumbSlots: &m.PlumbSlots, plumbMapPlumbSources: &m.PlumbSources,
	}
}

// open opens the maps that are pinned; nil if there are none.
func open(pins string) (*plumbMaps, error) {
	folder := layoutFolder(pins)
	m := &plumbMaps{}
	found := 0
	all := m.pinned()
	for name, at := range all {
		pinned, err := ebpf.LoadPinnedMap(filepath.Join(folder, name), nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open pinned map %s: %w", name, err), m.Close())
		}
		*at = pinned
		found++
	}
	switch found {
	case len(all):
		return m, nil
	case 0:
		return nil, nil
	}
	return nil, errors.Join(fmt.Errorf("of %d maps %d are pinned in %s", len(all), found, folder), m.Close())
}
