package mutant

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/backend"
)

// lifeMutations are wrong about connections that last, and about the agent's own
// beginning and end.
func lifeMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"stale-udp-flows-kept": func(c *changes) {
			c.options = func(_ context.Context, a *agent.Config) { a.Backend.Keeps = backend.Process }
		},
		"udp-flows-deleted-at-start": func(c *changes) { c.started = func(backend.Backend) error { return forget(unix.IPPROTO_UDP) } },
		"tcp-reset-by-default": func(c *changes) {
			c.options = func(_ context.Context, a *agent.Config) { a.ResetTCP = time.Millisecond }
		},
		"rules-removed-at-exit":  func(c *changes) { c.stopped = func(b backend.Backend) error { return b.Clean() } },
		"rules-removed-at-start": func(c *changes) { c.started = func(b backend.Backend) error { return b.Clean() } },
		"cleanup-does-nothing":   func(c *changes) { c.clean = func() error { return nil } },
		"rules-not-watched":      func(c *changes) { c.blind = true },
		"idle-tcp-flows-deleted-at-start": func(c *changes) {
			c.started = func(backend.Backend) error { return forgetIdle(time.Second) }
		},
		"api-loss-ends-service":      apiLossEndsService,
		"start-without-api-is-empty": startWithoutAPI,
	}
}

// apiLossEndsService removes all rules and fails the node's health check while the API
// does not answer.
func apiLossEndsService(c *changes) {
	lost := apiLost(c)
	c.health = func(r *http.Response) error {
		if lost() {
			r.StatusCode = http.StatusServiceUnavailable
		}
		return nil
	}
	c.started = func(b backend.Backend) error {
		go func() { // it ends with the process
			for range time.Tick(200 * time.Millisecond) {
				if lost() {
					_ = b.Clean() // what is gone already is no error
				}
			}
		}()
		return nil
	}
}

// startWithoutAPI removes all rules when the API does not answer an agent that starts.
func startWithoutAPI(c *changes) {
	lost := apiLost(c)
	c.started = func(b backend.Backend) error {
		go func() {
			for range 2 { // once may be a slow host
				if !lost() {
					return
				}
			}
			_ = b.Clean()
		}()
		return nil
	}
}

// apiLost tells, once the agent's options are known, whether the API does not answer within a second.
func apiLost(c *changes) func() bool {
	var ask func() bool
	c.options = func(ctx context.Context, a *agent.Config) {
		ctx = context.WithoutCancel(ctx)
		nodes, name := a.Client.CoreV1().Nodes(), a.Node
		ask = func() bool {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := nodes.Get(ctx, name, metav1.GetOptions{})
			return err != nil
		}
	}
	return func() bool { return ask() }
}

// forget deletes what the node's connection tracking remembers of a protocol.
func forget(protocol uint8) error {
	filter := &netlink.ConntrackFilter{}
	if err := filter.AddProtocol(protocol); err != nil {
		return fmt.Errorf("forget flows of protocol %d: %w", protocol, err)
	}
	return forgetThose(filter, unix.AF_INET, unix.AF_INET6)
}

// forgetIdle deletes what it remembers of TCP connections that have been idle for a
// time: what is left of their timeout says so.
func forgetIdle(idle time.Duration) error {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established")
	if err != nil {
		return fmt.Errorf("read the timeout of established connections: %w", err)
	}
	seconds, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return fmt.Errorf("read the timeout of established connections: %w", err)
	}
	return forgetThose(idleTCP{least: uint32(seconds / 2), most: uint32(seconds) - uint32(idle.Seconds())}, unix.AF_INET, unix.AF_INET6)
}

// idleTCP matches TCP connections by the seconds left of their timeout.
type idleTCP struct{ least, most uint32 }

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f idleTCP) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	return flow.Forward.Protocol == unix.IPPROTO_TCP && f.least < flow.TimeOut && flow.TimeOut < f.most
}

func forgetThose(filter netlink.CustomConntrackFilter, families ...netlink.InetFamily) error {
	for _, family := range families {
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter); err != nil {
			return fmt.Errorf("forget flows: %w", err)
		}
	}
	return nil
}
