package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// writer writes entries, one at a time and in the order in which it is asked to. After the first
// error it does nothing more.
type writer struct {
	fault  func() error // nil: nothing is to fail
	grace  *grace       // nil: nothing is deleted later
	ledger *ledger      // nil: nothing is counted
	err    error
	undo   []func() error // what takes away the entries that are new
}

// put writes an entry, and fresh one that was not there: back takes these away again.
func put[K, V any](w *writer, m *ebpf.Map, k K, v V) { write(w, m, k, v, false) }
func fresh[K, V any](w *writer, m *ebpf.Map, k K, v V) {
	if write(w, m, k, v, true) {
		w.undo = append(w.undo, func() error { return w.ledger.remove(m, k) })
	}
}

func write[K, V any](w *writer, m *ebpf.Map, k K, v V, fresh bool) bool {
	if !w.next() {
		return false
	}
	if w.grace != nil {
		w.grace.keep(m, k)
	}
	err := w.ledger.write(m, k, v, fresh)
	if noRoom(err) && w.grace != nil && w.grace.flush() {
		err = w.ledger.write(m, k, v, fresh)
	}
	switch {
	case noRoom(err):
		w.err = fullMap{name(m), m.MaxEntries()}
	case err != nil:
		w.err = fmt.Errorf("write to map %s: %w", m, err)
	}
	return w.err == nil
}

// noRoom tells whether a hash map or a trie was full.
func noRoom(err error) bool { return errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOSPC) }

// fullMap is what a map without room says.
type fullMap struct {
	name    string
	entries uint32
}

func (f fullMap) Error() string { return fmt.Sprintf("map %s is full (%d entries)", f.name, f.entries) }

func name(m *ebpf.Map) string {
	info, err := m.Info()
	if err != nil {
		return m.String()
	}
	return info.Name
}

// drop deletes an entry; that it is not there is no error.
func drop[K any](w *writer, m *ebpf.Map, k K) {
	if !w.next() {
		return
	}
	if err := w.ledger.remove(m, k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		w.err = fmt.Errorf("delete from map %s: %w", m, err)
	}
}

// later deletes an entry that nothing leads to any more, in a while.
func later[K any](w *writer, m *ebpf.Map, k K) {
	if w.next() {
		w.grace.later(m, k)
	}
}

func (w *writer) next() bool {
	if w.err == nil && w.fault != nil {
		w.err = w.fault()
	}
	return w.err == nil
}

// take returns what failed, and begins anew.
func (w *writer) take() error {
	err := w.err
	w.err = nil
	return err
}

// full tells whether the map that was written to had no room.
func full(err error) bool { return errors.As(err, &fullMap{}) }

// back takes away what was new since begin.
func (w *writer) back() error {
	var err error
	for _, f := range w.undo {
		err = errors.Join(err, f())
	}
	w.undo = nil
	return err
}

func (w *writer) begin() { w.undo = nil }
