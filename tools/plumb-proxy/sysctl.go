package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// sysctls are what a node needs beside the rules; v6 is for a cluster with IPv6
// pods.
func sysctls(v6 bool) []sysctl {
	out := []sysctl{
		// A packet that conntrack calls invalid (out of window) is not
		// translated back and reaches the client from an address it never
		// spoke to, which answers with a reset (kubernetes issue 74839).
		{path: "net/netfilter/nf_conntrack_tcp_be_liberal", value: "1", conntrack: true},
		{path: "net/ipv4/ip_forward", value: "1"},
	}
	if v6 {
		// Forwarding makes a host ignore router advertisements: not for nothing.
		out = append(out, sysctl{path: "net/ipv6/conf/all/forwarding", value: "1", optional: true})
	}
	return out
}

type sysctl struct {
	path      string
	value     string
	optional  bool // a host without it (no IPv6) is fine
	conntrack bool // is not there before the kernel has loaded conntrack
}

// writeSysctls sets what is not set already. root is /proc/sys, and load makes
// the kernel load conntrack.
func writeSysctls(root string, v6 bool, load func() error, log *slog.Logger) error {
	for _, s := range sysctls(v6) {
		path := filepath.Join(root, s.path)
		old, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && s.conntrack {
			log.Info("sysctl is not there yet, loading conntrack", "name", s.path)
			if err := load(); err != nil {
				return fmt.Errorf("sysctl %s is not there: %w; load the kernel module nf_conntrack on the host", s.path, err)
			}
			if old, err = os.ReadFile(path); errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("sysctl %s is not there, not even after a rule that needs conntrack; load the kernel module nf_conntrack on the host", s.path)
			}
		}
		if errors.Is(err, os.ErrNotExist) && s.optional {
			log.Info("sysctl is not there", "name", s.path)
			continue
		}
		if err != nil {
			return fmt.Errorf("read sysctl %s: %w", s.path, err)
		}
		if strings.TrimSpace(string(old)) == s.value {
			continue
		}
		if err := os.WriteFile(path, []byte(s.value), 0o644); err != nil {
			return fmt.Errorf("set sysctl %s to %s: %w", s.path, s.value, err)
		}
		log.Info("sysctl set", "name", s.path, "from", strings.TrimSpace(string(old)), "to", s.value)
	}
	return nil
}
