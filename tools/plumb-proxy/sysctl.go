package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// sysctls are what a node needs beside the rules.
func sysctls() []sysctl {
	return []sysctl{
		// A packet that conntrack calls invalid (out of window) is not
		// translated back and reaches the client from an address it never
		// spoke to, which answers with a reset (kubernetes issue 74839).
		{"net/netfilter/nf_conntrack_tcp_be_liberal", "1", false},
		{"net/ipv4/ip_forward", "1", false},
		{"net/ipv6/conf/all/forwarding", "1", true},
	}
}

type sysctl struct {
	path     string
	value    string
	optional bool // a host without it (no IPv6) is fine
}

// writeSysctls sets what is not set already. root is /proc/sys.
func writeSysctls(root string, log *slog.Logger) error {
	for _, s := range sysctls() {
		path := filepath.Join(root, s.path)
		old, err := os.ReadFile(path)
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
