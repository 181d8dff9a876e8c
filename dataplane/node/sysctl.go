package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Sysctl is a value of the kernel below /proc/sys, and what it is to be.
type Sysctl struct {
	path      string
	value     string
	otherwise string // what goes wrong with another value, where that is known
	atLeast   bool   // a higher value that is there may stay
	optional  bool   // a host without it (no IPv6) is fine
	conntrack bool   // is not there before the kernel has loaded conntrack
	// global: one value for the whole host, which can be written only in its
	// initial network namespace. Then wanted decides: an error if somebody asked
	// for the value, a warning if it is a default.
	global bool
	wanted bool
}

// Sysctls are what a node needs beside the rules; v6 is for a cluster with
// IPv6 pods.
func Sysctls(v6 bool) []Sysctl {
	out := []Sysctl{
		// A packet that conntrack calls invalid (out of window) is not
		// translated back and reaches the client from an address it never
		// spoke to, which answers with a reset (kubernetes issue 74839).
		{path: "net/netfilter/nf_conntrack_tcp_be_liberal", value: "1", conntrack: true,
			otherwise: "open connections may be reset by packets that come late or out of order (kubernetes issue 74839)"},
		{path: "net/ipv4/ip_forward", value: "1", otherwise: "nothing is forwarded over IPv4"},
	}
	if v6 {
		// Forwarding makes a host ignore router advertisements: not for nothing.
		out = append(out, Sysctl{path: "net/ipv6/conf/all/forwarding", value: "1", optional: true, otherwise: "nothing is forwarded over IPv6"})
	}
	return out
}

// Writer sets sysctls.
type Writer struct {
	Root string       // /proc/sys
	Load func() error // makes the kernel load conntrack
	Log  *slog.Logger
}

// Write sets what is not set already.
func (w Writer) Write(all []Sysctl) error {
	for _, s := range all {
		old, err := w.read(s)
		if err != nil {
			return err
		}
		if old == "" || old == s.value || s.atLeast && enough(old, s.value) {
			continue
		}
		err = os.WriteFile(filepath.Join(w.Root, s.path), []byte(s.value), 0o644)
		denied := errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS)
		switch {
		case err == nil:
			w.Log.Info("sysctl set", "name", s.path, "from", old, "to", s.value)
		case s.global && denied && !s.wanted:
			w.Log.Warn("sysctl left as it is: it holds for the whole host and can be written only in the host's own network namespace",
				"name", s.path, "is", old, "default", s.value)
		case s.global && denied:
			return fmt.Errorf("set sysctl %s to %s: %w; it holds for the whole host and can be written only in the host's own network namespace: set it there, and give --conntrack-max-per-core=0", s.path, s.value, err)
		default:
			return fmt.Errorf("set sysctl %s to %s: %w", s.path, s.value, err)
		}
	}
	return nil
}

// read is the value, empty if the host can do without.
func (w Writer) read(s Sysctl) (string, error) {
	path := filepath.Join(w.Root, s.path)
	old, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && s.conntrack {
		w.Log.Info("sysctl is not there yet, loading conntrack", "name", s.path)
		if err := w.Load(); err != nil {
			return "", fmt.Errorf("sysctl %s is not there: %w; load the kernel module nf_conntrack on the host", s.path, err)
		}
		if old, err = os.ReadFile(path); errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("sysctl %s is not there, not even after a rule that needs conntrack; load the kernel module nf_conntrack on the host", s.path)
		}
	}
	if errors.Is(err, os.ErrNotExist) && s.optional {
		w.Log.Info("sysctl is not there", "name", s.path)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read sysctl %s: %w", s.path, err)
	}
	return strings.TrimSpace(string(old)), nil
}

// Amiss are those that are not as they are to be and do harm, a line each; what is not there does
// none (yet: conntrack is loaded with the first rule that needs it).
func Amiss(root string, all []Sysctl) ([]string, error) {
	var out []string
	var errs []error
	for _, s := range all {
		is, err := os.ReadFile(filepath.Join(root, s.path))
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, fmt.Errorf("read sysctl %s: %w", s.path, err))
			}
			continue
		}
		if is := strings.TrimSpace(string(is)); s.otherwise != "" && is != s.value {
			out = append(out, fmt.Sprintf("sysctl %s is %s and not %s: %s", strings.ReplaceAll(s.path, "/", "."), is, s.value, s.otherwise))
		}
	}
	return out, errors.Join(errs...)
}

func enough(is, want string) bool {
	a, errA := strconv.Atoi(is)
	b, errB := strconv.Atoi(want)
	return errA == nil && errB == nil && a >= b
}
