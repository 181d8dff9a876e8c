package userspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// journal counts what would be lost if the process ended now, in a file that the
// kernel keeps when it does: counting is a store to mapped memory. A living
// process holds a lock on its file; a file without one is of a process that died.
type journal struct {
	tcp, udp *atomic.Int64
	file     *os.File // nil without a directory
	mem      []byte
}

const (
	journalPrefix = "userspace-"
	unbornPrefix  = "plumbline-new-" // of a journal that is not locked yet
	journalSize   = 16
)

// openJournal begins a journal. Without a directory it is in memory alone.
func openJournal(dir string) (*journal, error) {
	if dir == "" {
		return &journal{tcp: &atomic.Int64{}, udp: &atomic.Int64{}}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	f, err := os.CreateTemp(dir, unbornPrefix+"*") // not counted by inherit before it is locked
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &journal{file: f}
	if err := j.begin(dir); err != nil {
		_ = os.Remove(f.Name())
		f.Close()
		return nil, fmt.Errorf("open journal %s: %w", f.Name(), err)
	}
	return j, nil
}

func (j *journal) begin(dir string) error {
	if err := unix.Flock(int(j.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	if err := j.file.Truncate(journalSize); err != nil {
		return err
	}
	mem, err := unix.Mmap(int(j.file.Fd()), 0, journalSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	j.mem, j.tcp, j.udp = mem, counter(mem[:8]), counter(mem[8:])
	return os.Rename(j.file.Name(), j.path(dir))
}

func (j *journal) path(dir string) string {
	return filepath.Join(dir, journalPrefix+strings.TrimPrefix(filepath.Base(j.file.Name()), unbornPrefix))
}

// counter is a number in mapped memory, which begins at a page.
func counter(mem []byte) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&mem[0])) }

// inherit adds up and removes the journals of processes that died, and removes
// those that never began. What is damaged is told and holds nothing up; what is
// too short to be a journal is removed. A process that begins its journal at this
// very moment may lose it, and then fails to.
func inherit(dir string) (tcp, udp int64, damaged []error) {
	if dir == "" {
		return 0, 0, nil
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		damaged = append(damaged, fmt.Errorf("find journals: %w", err))
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		var a, b int64
		var err error
		switch {
		case strings.HasPrefix(f.Name(), journalPrefix):
			a, b, err = bequest(path)
		case strings.HasPrefix(f.Name(), unbornPrefix):
			_, err = claim(path, func(*os.File) error { return nil })
		}
		tcp, udp = tcp+a, udp+b
		if err != nil {
			damaged = append(damaged, err)
		}
	}
	return tcp, udp, damaged
}

// bequest is what a journal counted. Both are 0 if its process lives.
func bequest(path string) (tcp, udp int64, err error) {
	mem := make([]byte, journalSize)
	var short error
	ours, err := claim(path, func(f *os.File) error {
		_, err := f.ReadAt(mem, 0)
		if errors.Is(err, io.EOF) {
			short, err = fmt.Errorf("read journal %s: it is too short", path), nil
		}
		return err
	})
	if !ours || err != nil || short != nil {
		return 0, 0, errors.Join(err, short)
	}
	tcp, udp = counter(mem[:8]).Load(), counter(mem[8:]).Load()
	if min(tcp, udp) < 0 || max(tcp, udp) > mostCounted {
		return 0, 0, fmt.Errorf("read journal %s: no process has had %d connections and %d flows", path, tcp, udp)
	}
	return tcp, udp, nil
}

// mostCounted is more than a process can have had: each takes a file descriptor.
const mostCounted = math.MaxUint32

// claim reads and removes the file of a process that died; ours is false if it
// lives, or another took the file.
func claim(path string, read func(*os.File) error) (ours bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open journal: %w", err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil // its process lives
		}
		return false, fmt.Errorf("lock journal %s: %w", path, err)
	}
	if err := read(f); err != nil {
		return false, fmt.Errorf("read journal %s: %w", path, err)
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // another was faster
	}
	if err != nil {
		return false, fmt.Errorf("remove journal: %w", err)
	}
	return true, nil
}

// Close ends the journal of a process that knows what it has lost. The counters
// must not be used any more.
func (j *journal) Close(dir string) error {
	if j.file == nil {
		return nil
	}
	return errors.Join(os.Remove(j.path(dir)), unix.Munmap(j.mem), j.file.Close())
}
