package main

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// capability is one of capabilities(7).
type capability int

const (
	netAdmin capability = unix.CAP_NET_ADMIN
	netRaw   capability = unix.CAP_NET_RAW
	netBind  capability = unix.CAP_NET_BIND_SERVICE
)

func (c capability) String() string {
	return map[capability]string{netAdmin: "NET_ADMIN", netRaw: "NET_RAW", netBind: "NET_BIND_SERVICE"}[c]
}

// demand says which of the capabilities this process lacks, if any: the kernel
// would refuse every single write, and some programs do not say why.
func demand(backend string, caps []capability) error {
	var have [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &have[0]); err != nil {
		return fmt.Errorf("read own capabilities: %w", err)
	}
	var missing []string
	for _, c := range caps {
		if have[c/32].Effective&(1<<(c%32)) == 0 {
			missing = append(missing, c.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("backend %s needs the capability %s", backend, strings.Join(missing, " and "))
	}
	return nil
}
