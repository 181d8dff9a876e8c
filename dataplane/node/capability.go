package node

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Capability is one of capabilities(7).
type Capability int

const (
	NetAdmin Capability = unix.CAP_NET_ADMIN
	NetRaw   Capability = unix.CAP_NET_RAW
	NetBind  Capability = unix.CAP_NET_BIND_SERVICE
	BPF      Capability = unix.CAP_BPF
)

func (c Capability) String() string {
	return map[Capability]string{NetAdmin: "NET_ADMIN", NetRaw: "NET_RAW", NetBind: "NET_BIND_SERVICE", BPF: "BPF"}[c]
}

// Demand says which of the capabilities this process lacks, if any: the kernel
// would refuse every single write, and some programs do not say why.
func Demand(backend string, caps []Capability) error {
	var have [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &have[0]); err != nil {
		return fmt.Errorf("read own capabilities: %w", err)
	}
	var missing []string
	has := func(c Capability) bool { return have[c/32].Effective&(1<<(c%32)) != 0 }
	for _, c := range caps {
		if !has(c) && (c != BPF || !has(unix.CAP_SYS_ADMIN)) { // SYS_ADMIN may do what BPF may
			missing = append(missing, c.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("backend %s needs the capability %s", backend, strings.Join(missing, " and "))
	}
	return nil
}
