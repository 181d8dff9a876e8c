package ebpf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
)

// build tells programs of one object from those of another: it is in the names of their pins.
func build(object []byte) string {
	sum := sha256.Sum256(object)
	return hex.EncodeToString(sum[:8])
}

func (h hook) path(pins string) string {
	return filepath.Join(layoutFolder(pins), h.name+"_"+build(_PlumbBytes))
}

// pinned calls f with every program that is pinned for the hook, of whatever build and layout.
func (h hook) pinned(pins string, f func(path string, p *ebpf.Program) error) error {
	paths, err := inLayouts(pins, h.name+"_*")
	if err != nil {
		return fmt.Errorf("look for pinned programs: %w", err)
	}
	for _, path := range paths {
		p, err := ebpf.LoadPinnedProgram(path, nil)
		if err != nil {
			return fmt.Errorf("open pinned program %s: %w", path, err)
		}
		if err := f(path, p); err != nil {
			return err
		}
	}
	return nil
}

// meet opens what predecessors have pinned, also those that ended while they attached; leave
// closes it.
func (h *hook) meet(pins string) error {
	return h.pinned(pins, func(_ string, p *ebpf.Program) error {
		id := idOf(p)
		h.before, h.ids = append(h.before, p), append(h.ids, id)
		return nil
	})
}

func (h *hook) leave() {
	for _, p := range h.before {
		_ = p.Close() // of a descriptor that was only read
	}
}

// begin prepares for attaching the program: unless no predecessor's is left, it meets these and
// pins the program beside them, so that whoever comes finds it even if not all devices get it.
func (h *hook) begin(pins string, alone bool) error {
	h.id = idOf(h.program)
	if alone {
		return nil
	}
	if err := h.meet(pins); err != nil {
		return err
	}
	if slices.Contains(h.ids, h.id) {
		return nil
	}
	if err := h.program.Pin(filepath.Join(layoutFolder(pins), fmt.Sprintf("%s_next%d", h.name, h.id))); err != nil {
		return fmt.Errorf("pin program %s before it is attached: %w", h.name, err)
	}
	return nil
}

// pin pins the program by its build, and nothing else stays pinned for the hook.
func (h hook) pin(pins string) error {
	err := h.pinned(pins, func(path string, p *ebpf.Program) error {
		defer p.Close()
		if id := idOf(p); id == h.id {
			return nil
		}
		return os.Remove(path)
	})
	if err == nil {
		err = h.program.Pin(h.path(pins)) // renames what begin has made
	}
	if err != nil {
		return fmt.Errorf("pin program %s: %w", h.name, err)
	}
	return nil
}
