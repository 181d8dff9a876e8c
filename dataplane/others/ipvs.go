//go:build linux

package others

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// ipvs looks at the virtual services of IPVS, which kube-proxy's mode ipvs and kube-router
// make. A kernel without IPVS has none.
func ipvs(cfg Config) ([]Trace, error) {
	text, err := os.ReadFile(cfg.Proc + "/thread-self/net/ip_vs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at IPVS: %w", err)
	}
	return ofVirtual(string(text)), nil
}

// ofVirtual reads /proc/net/ip_vs: a line for each virtual service, and below it lines
// that begin with an arrow for its servers. [net/netfilter/ipvs/ip_vs_ctl.c]
func ofVirtual(text string) []Trace {
	n, first := 0, ""
	for line := range strings.Lines(text) {
		word := strings.Fields(line)
		if len(word) < 2 {
			continue
		}
		switch word[0] {
		case "TCP", "UDP", "SCTP":
			if n++; first == "" {
				first = address(word[1]) + "/" + word[0]
			}
		case "FWM":
			if n++; first == "" {
				first = "mark " + word[1]
			}
		}
	}
	if n == 0 {
		return nil
	}
	return []Trace{{Who: "IPVS", What: fmt.Sprintf("%d virtual services, the first %s", n, first)}}
}

// address is 0A600001:01BB or [fd00:…]:01BB as people write it.
func address(s string) string {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s
	}
	port, err := strconv.ParseUint(s[i+1:], 16, 16)
	if err != nil {
		return s
	}
	if a, err := netip.ParseAddr(strings.Trim(s[:i], "[]")); err == nil {
		return netip.AddrPortFrom(a, uint16(port)).String()
	}
	v4, err := strconv.ParseUint(s[:i], 16, 32)
	if err != nil {
		return s
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)}), uint16(port)).String()
}
