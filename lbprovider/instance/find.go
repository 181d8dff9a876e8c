package instance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// record is what a process was started with: what a container has in labels.
type record struct {
	Service string       `json:"service"`
	UID     string       `json:"serviceUID"`
	Addrs   []netip.Addr `json:"addresses"`
	Owner   string       `json:"owner"`
	Digest  string       `json:"spec"`
}

func writeRecord(s Spec, digest string) error {
	text, err := json.MarshalIndent(record{s.Service, s.UID, s.Addrs, s.Owner, digest}, "", "  ")
	if err != nil {
		return fmt.Errorf("write its record: %w", err)
	}
	f, err := os.CreateTemp(s.Dir, recordFile+".*")
	if err != nil {
		return fmt.Errorf("write its record: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.Dir, recordFile))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write its record: %w", err), os.Remove(f.Name()))
	}
	return nil
}

func readRecord(dir string) (Spec, string, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return Spec{}, "", fmt.Errorf("read its record: %w", err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return Spec{}, "", fmt.Errorf("read its record: %w", err)
	}
	return Spec{Name: filepath.Base(dir), Service: r.Service, UID: r.UID, Dir: dir, Addrs: r.Addrs, Owner: r.Owner}, r.Digest, nil
}

func removeRecord(dir string) error {
	if err := os.Remove(filepath.Join(dir, recordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove its record: %w", err)
	}
	return nil
}

// recorded lists the load balancers that have a record.
func recorded(stateDir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(stateDir, NamePrefix+"*", recordFile))
	if err != nil {
		return nil, fmt.Errorf("look for load balancers in %s: %w", stateDir, err)
	}
	for i, f := range files {
		files[i] = filepath.Base(filepath.Dir(f))
	}
	return files, nil
}

// findAll finds every HAProxy process of the load balancers of stateDir, by their
// names.
func findAll(stateDir string) (map[string][]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	out := map[string][]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if name := whose(pid, stateDir); name != "" {
				out[name] = append(out[name], pid)
			}
		}
	}
	return out, nil
}

// whose is the load balancer of stateDir that a process serves, empty if none:
// its program is HAProxy, and its command line ends as spawn made it. (A worker
// that a reload started has more in front: -sf and -x.)
func whose(pid int, stateDir string) string {
	cmdline := settledCmdline(pid)
	if len(cmdline) == 0 {
		return ""
	}
	args := strings.Split(string(bytes.TrimSuffix(cmdline, []byte{0})), "\x00")
	dir := filepath.Dir(args[len(args)-1])
	want := command(dir)
	if filepath.Dir(dir) != stateDir || len(args) < len(want) || !slices.Equal(args[len(args)-len(want):], want) {
		return ""
	}
	if !runsHAProxy(pid) {
		return ""
	}
	return filepath.Base(dir)
}

// runsHAProxy is false for a process that has given up its memory.
func runsHAProxy(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && strings.HasPrefix(filepath.Base(exe), "haproxy") // also "haproxy (deleted)"
}

// execTime is more than the kernel takes for the rest of an execve, also on a busy host.
const execTime = 5 * time.Second

// settledCmdline is empty for a process that is not there any more. One that executes a
// program, as HAProxy's master does with its own after every start and reload, has that
// program for a moment before it has a command line.
func settledCmdline(pid int) []byte {
	for begin := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		cmdline, err := cmdlineOf(pid)
		if err != nil || len(cmdline) > 0 || !runsHAProxy(pid) || time.Since(begin) > execTime {
			return cmdline
		}
	}
}

// ending says whether a process has given up its memory, and with it its command line. Its
// files go after that. (A thread of the kernel never had any.)
func ending(pid int) bool {
	cmdline, err := cmdlineOf(pid)
	return err == nil && len(cmdline) == 0 && flagsOf(pid)&pfKthread == 0
}

// maxCmdline is far more than any HAProxy of ours was started with.
const maxCmdline = 64 << 10

// cmdlineOf is the start of a command line, from a single read: in two, the second may find
// another program than the first did.
func cmdlineOf(pid int) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, maxCmdline)
	n, err := f.Read(buf)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf[:n], err
}

// masterOf is the one that spawn started, which leads a session; 0 if there is no
// such: workers outlive their master for a moment.
func masterOf(pids []int) int {
	for _, pid := range pids {
		if sessionOf(pid) == pid {
			return pid
		}
	}
	return 0
}

// sessionOf is 0 for a process that is not there, and for one whose session's leader this
// process cannot see (a container's, and what init starts).
func sessionOf(pid int) int { return statOf(pid, 3) }

// pfKthread is in the flags of the kernel's threads (include/linux/sched.h).
const pfKthread = 0x00200000

func flagsOf(pid int) int { return statOf(pid, 6) }

// statOf is a field of /proc/PID/stat, counted from the state (proc_pid_stat(5)); 0 for a
// process that is not there.
func statOf(pid, field int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// Behind the program's name, which may hold anything.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if field >= len(f) {
		return 0
	}
	n, err := strconv.Atoi(f[field])
	if err != nil {
		return 0
	}
	return n
}
