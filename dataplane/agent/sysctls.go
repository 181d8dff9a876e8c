package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/spaces"
)

// lookAgain is the time between two looks at the node's sysctls, which others may change.
const lookAgain = time.Minute

// sysctls tells of those that are not as a node needs them; the agent itself has no right to
// write them (--init-only does).
type sysctls struct {
	look func() ([]string, error)
	tell func(reason, text string)
	log  *slog.Logger
	told string
}

// reasonSysctls is that of Events about them.
const reasonSysctls = "SysctlAmiss"

func newSysctls(cfg *Config, tell func(reason, text string)) *sysctls {
	v6 := IPv6(cfg.Plan)
	return &sysctls{tell: tell, log: cfg.Logger, look: func() (amiss []string, err error) {
		err = spaces.Do(cfg.NetNS, func() (err error) {
			amiss, err = node.Amiss("/proc/sys", node.Sysctls(v6))
			return err
		})
		return amiss, err
	}}
}

// IPv6 tells whether a node with such options forwards IPv6.
func IPv6(o plan.Options) bool {
	return slices.ContainsFunc(o.ClusterCIDRs, func(p netip.Prefix) bool { return p.Addr().Is6() })
}

// run looks until ctx ends.
func (s *sysctls) run(ctx context.Context) error {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		s.once()
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// once tells what is amiss, once for as long as it stays the same.
func (s *sysctls) once() {
	amiss, err := s.look()
	text := strings.Join(amiss, "; ")
	if err != nil {
		text = strings.Join(append(amiss, err.Error()), "; ")
	}
	if text == s.told {
		return
	}
	s.told = text
	if text == "" {
		s.log.Info("the node's sysctls are as they are to be")
		return
	}
	s.log.Warn("the node is not prepared; plumb-proxy --init-only does it", "amiss", text)
	s.tell(reasonSysctls, text+"; plumb-proxy --init-only on this node sets it")
}
