package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Ports is a set of them.
type Ports []bool

// reservedPorts are those that the kernel gives to nobody who does not ask for one by its number
// (Linux Documentation/networking/ip-sysctl.rst: ip_local_reserved_ports). Each network namespace
// has its own.
const reservedPorts = "net/ipv4/ip_local_reserved_ports"

// Reserved are the ports that are kept from those who ask for any, in the namespace of the calling
// thread; root is /proc/sys.
func Reserved(root string) (Ports, error) {
	text, err := os.ReadFile(filepath.Join(root, reservedPorts))
	if err != nil {
		return nil, fmt.Errorf("read reserved ports: %w", err)
	}
	return ParsePorts(strings.TrimSpace(string(text)))
}

// Reserve makes the set the reserved ports.
func Reserve(root string, all Ports) error {
	// The kernel takes an empty line for no port at all.
	if err := os.WriteFile(filepath.Join(root, reservedPorts), []byte(all.String()+"\n"), 0o644); err != nil {
		return fmt.Errorf("write reserved ports: %w", err)
	}
	return nil
}

// PortRange are those from the first to the last.
func PortRange(first, last uint16) Ports {
	out := make(Ports, 1<<16)
	for p := int(first); p <= int(last); p++ {
		out[p] = true
	}
	return out
}

// ParsePorts reads numbers and ranges, separated by commas; nothing is no port.
func ParsePorts(text string) (Ports, error) {
	out := make(Ports, 1<<16)
	if text == "" {
		return out, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 16)
		last, bad := strconv.ParseUint(to, 10, 16)
		if err != nil || bad != nil || first > last {
			return nil, fmt.Errorf("read ports %q: %q is neither a port nor a range of them", text, part)
		}
		for p := first; p <= last; p++ {
			out[p] = true
		}
	}
	return out, nil
}

// String is in the form that ParsePorts reads.
func (p Ports) String() string {
	var parts []string
	for first := 0; first < len(p); first++ {
		if !p[first] {
			continue
		}
		last := first
		for last+1 < len(p) && p[last+1] {
			last++
		}
		part := strconv.Itoa(first)
		if last > first {
			part += "-" + strconv.Itoa(last)
		}
		parts, first = append(parts, part), last
	}
	return strings.Join(parts, ",")
}

// With are those of either set.
func (p Ports) With(other Ports) Ports {
	return p.combine(other, func(a, b bool) bool { return a || b })
}

// Without are those that the other set does not have.
func (p Ports) Without(other Ports) Ports {
	return p.combine(other, func(a, b bool) bool { return a && !b })
}

func (p Ports) combine(other Ports, f func(a, b bool) bool) Ports {
	out := make(Ports, 1<<16)
	for i := range out {
		out[i] = f(p[i], other[i])
	}
	return out
}
