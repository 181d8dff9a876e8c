package haproxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// Delta is how a running process comes to run another configuration.
type Delta struct {
	Reload bool
	// Commands for the stats socket, one line each, in order. Empty with
	// Reload.
	Commands []string
	// Drains counts the commands that only delete a server in maintenance.
	// They fail while it has connections, and that is as good as done.
	Drains int
}

// Done says that nothing is left to do but to delete drained servers.
func (d Delta) Done() bool { return !d.Reload && len(d.Commands) == d.Drains }

// Change compares what a process runs with what it should run. It looks at
// the process, not at what was rendered last: a provider that was restarted,
// or died in the middle of a change, gets the same answer.
func Change(now Running, want Config) Delta {
	if now.Base != BaseOf(want) {
		return Delta{Reload: true}
	}
	have := map[string]ServerState{}
	for _, s := range now.Servers {
		have[s.ID()] = s
	}
	var d Delta
	for _, l := range want.LB.Listeners {
		ids := serverIDs(l)
		for _, s := range l.Servers {
			id := proxyName(l) + "/" + serverName(s.Node)
			state, ok := have[id]
			delete(have, id)
			switch {
			case !ok:
				d.Commands = append(d.Commands, addServer(want, id, ids[s.Node], s))
			case !state.InService || state.Addr != s.Addr || state.CheckPort != want.LB.Check.Port:
				d.Commands = append(d.Commands, resetServer(want, id, s))
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(have)) {
		if have[id].Maint {
			d.Commands = append(d.Commands, "del server "+id)
			d.Drains++
		} else {
			d.Commands = append(d.Commands, "set server "+id+" state maint; del server "+id)
		}
	}
	return d
}

// addServer makes a server that takes no traffic before its first good check;
// see the package comment for the order.
func addServer(c Config, id string, number int, s lbplan.Server) string {
	add := fmt.Sprintf("add server %s %s id %d weight 0 %s", id, s.Addr, number, checkParams(c))
	return strings.Join(append([]string{add}, enter(id)...), "; ")
}

// resetServer gives a known server another address, or takes it back into
// service, as if it were new.
func resetServer(c Config, id string, s lbplan.Server) string {
	set := "set server " + id
	return strings.Join(append([]string{
		set + " state maint",
		set + " weight 0",
		fmt.Sprintf("%s addr %s port %d", set, s.Addr.Addr(), s.Addr.Port()),
		fmt.Sprintf("%s check-port %d", set, c.LB.Check.Port),
	}, enter(id)...), "; ")
}

// enter takes a server of weight 0 out of maintenance, DOWN until a check
// passes.
func enter(id string) []string {
	set := "set server " + id
	return []string{"enable health " + id, set + " state ready", set + " health down", set + " weight 1"}
}
