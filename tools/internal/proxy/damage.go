package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/tools/internal/call"
)

const damageUsage = `plumb-proxy damage [flags]

For tests: takes away what a backend keeps in the kernel, as somebody else might while its
agent runs, which is to put it back. It needs no tool on the node. No other help names it.

`

// parseDamage reads what follows `plumb-proxy damage`: the backend whose things are taken away.
func parseDamage(args []string) (backend.Backend, error) {
	fs := call.Flags("plumb-proxy damage")
	name := fs.String("backend", "nftables", "whose: "+strings.Join(backendNames(), ", "))
	if err := call.Parse(fs, damageUsage, args); err != nil {
		return backend.Backend{}, err
	}
	if fs.NArg() > 0 {
		return backend.Backend{}, fmt.Errorf("damage: unexpected argument %q", fs.Arg(0))
	}
	if !slices.Contains(backendNames(), *name) {
		return backend.Backend{}, fmt.Errorf("damage: --backend %q: there is no such backend; one of: %s", *name, strings.Join(backendNames(), ", "))
	}
	return backend.All(0)[*name], nil
}
