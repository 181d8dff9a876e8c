package ebpf

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
)

// Of several layouts that have a map, as where one was killed while it took over, the first whose map has the right
// form is gone on with, and only where none has is one told of it.
func TestInherit(t *testing.T) {
	need.Root(t)
	pins := t.TempDir()
	if err := MountRoot(pins); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(pins, 0); err != nil {
			t.Error(err)
		}
	}()
	spec, err := Sizes{Frontends: 64, Endpoints: 64, Sources: 64, Clients: 64, Connections: 64}.spec()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]ebpf.MapID{}
	pin := func(folder string, entries uint32) {
		like := spec.Maps[plumbMapPlumbFlows].Copy()
		like.MaxEntries, like.Pinning = entries, ebpf.PinNone
		m, err := ebpf.NewMap(like)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := os.MkdirAll(filepath.Join(pins, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := m.Pin(filepath.Join(pins, folder, plumbMapPlumbFlows)); err != nil {
			t.Fatal(err)
		}
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		ids[folder], _ = info.ID()
	}
	pin("v7", 128)
	pin("v8", 256)
	if err := os.MkdirAll(layoutFolder(pins), 0o700); err != nil {
		t.Fatal(err)
	}
	own, log := filepath.Join(layoutFolder(pins), plumbMapPlumbFlows), &strings.Builder{}
	goOn := func() {
		if err := inherit(pins, spec, []string{plumbMapPlumbFlows}, slog.New(slog.NewTextHandler(log, nil))); err != nil {
			t.Fatal(err)
		}
	}
	goOn()
	if n := strings.Count(log.String(), "is forgotten"); n != 1 || !strings.Contains(log.String(), "v7/") || !strings.Contains(log.String(), "v8/") {
		t.Errorf("of maps of another form is said %d times:\n%s", n, log)
	}
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("a map of another form is gone on with: %v", err)
	}
	log.Reset()
	pin("v9", 64)
	goOn()
	m, err := ebpf.LoadPinnedMap(own, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	info, err := m.Info()
	if id, _ := info.ID(); err != nil || id != ids["v9"] {
		t.Errorf("map %d is gone on with (%v), want %d", id, err, ids["v9"])
	}
	if log.Len() > 0 {
		t.Errorf("something is said:\n%s", log)
	}
}
