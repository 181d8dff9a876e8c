package userspace

import (
	"errors"
	"fmt"
	"io/fs"
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
	f, err := os.CreateTemp(dir, ".new-*") // not seen by inherit before it is locked
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
	return filepath.Join(dir, journalPrefix+strings.TrimPrefix(filepath.Base(j.file.Name()), ".new-"))
}

// counter is a number in mapped memory, which begins at a page.
func counter(mem []byte) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&mem[0])) }

// inherit adds up and removes the journals of processes that died.
func inherit(dir string) (tcp, udp int64, err error) {
	if dir == "" {
		return 0, 0, nil
	}
	paths, err := filepath.Glob(filepath.Join(dir, journalPrefix+"*"))
	if err != nil {
		return 0, 0, fmt.Errorf("find journals: %w", err)
	}
	for _, path := range paths {
		a, b, e := bequest(path)
		tcp, udp, err = tcp+a, udp+b, errors.Join(err, e)
	}
	return tcp, udp, err
}

func bequest(path string) (tcp, udp int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read journal: %w", err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return 0, 0, nil // its process lives
		}
		return 0, 0, fmt.Errorf("lock journal %s: %w", path, err)
	}
	mem := make([]byte, journalSize)
	if _, err := f.ReadAt(mem, 0); err != nil {
		return 0, 0, fmt.Errorf("read journal %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return 0, 0, fmt.Errorf("remove journal: %w", err)
	}
	return counter(mem[:8]).Load(), counter(mem[8:]).Load(), nil
}

// Close ends the journal of a process that knows what it has lost. The counters
// must not be used any more.
func (j *journal) Close(dir string) error {
	if j.file == nil {
		return nil
	}
	return errors.Join(os.Remove(j.path(dir)), unix.Munmap(j.mem), j.file.Close())
}
