package iptables

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// xt_recent keeps so many addresses in a list, the module's parameter
// ip_list_tot; the one not seen for longest makes room. It can be set when the
// module is loaded, or on the kernel's command line, and is one for all lists.
const recentLimit = "/sys/module/xt_recent/parameters/ip_list_tot"

// tellAffinity logs, once, how many clients of an endpoint are remembered.
func (t *Target) tellAffinity(groups map[plan.Key][]plan.Frontend) {
	if t.toldAffinity || !hasAffinity(groups) {
		return
	}
	t.toldAffinity = true
	raw, err := os.ReadFile(recentLimit)
	limit, bad := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || bad != nil {
		t.log.Warn("the limit of session affinity cannot be read", "file", recentLimit, "err", err)
		return
	}
	t.log.Info("session affinity remembers the clients of each endpoint up to a limit", "clients", limit, "parameter", recentLimit)
}

func hasAffinity(groups map[plan.Key][]plan.Frontend) bool {
	for _, fs := range groups {
		for _, f := range fs {
			if f.Affinity > 0 {
				return true
			}
		}
	}
	return false
}

// whyRefused adds what a frontend needs that the kernel may lack.
func (t *tool) whyRefused(f plan.Frontend, err error) error {
	if f.Affinity <= 0 {
		return err
	}
	if there, unsure := t.present("xt_recent"); !there && unsure == nil {
		return fmt.Errorf("session affinity needs the kernel's match xt_recent (there is no /proc/net/xt_recent): %w", err)
	}
	return err
}
