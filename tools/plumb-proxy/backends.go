package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/userspace"
)

// backend is what the agent needs of a dataplane.
type backend struct {
	// start makes one; nothing is changed before its first Apply.
	start func(backendOptions, *slog.Logger) running
	clean func() error
	// needs are the capabilities of a process that starts one; those to clean are
	// the same.
	needs func(backendOptions) []capability
	// sctp tells whether this kernel can serve SCTP ports; nil: never.
	sctp func() (bool, error)
	// flows: conntrack remembers where this backend sent a connection.
	flows bool
}

// running is a dataplane at work.
type running struct {
	loop.Target
	// close ends what only this process holds. Rules stay.
	close func() error
	// watch calls lost when somebody else may have changed what the target keeps,
	// until ctx ends; nil: nothing tells of that but the hourly check.
	watch  func(ctx context.Context, lost func()) error
	counts []count // metrics of its own
	// path is the way of a packet to a frontend, as the kernel has it; nil: there
	// is none to show.
	path func(*plan.Plan, plan.Key) (string, error)
}

// backends are all there are, in a network namespace; 0 is the process's own.
func backends(netns int) map[string]backend {
	return map[string]backend{
		"nftables": {
			start: func(_ backendOptions, log *slog.Logger) running {
				t := nftables.New(nftables.Config{Logger: log, NetNS: netns})
				return running{
					Target: t, close: t.Close, watch: t.Watch,
					path: func(p *plan.Plan, k plan.Key) (string, error) { return nftables.Path(p, k, netns) },
				}
			},
			sctp:  func() (bool, error) { return sctp(netns) },
			clean: func() error { return nftables.Clean(netns) },
			needs: func(backendOptions) []capability { return []capability{netAdmin} },
			flows: true,
		},
		"iptables": {
			start: func(o backendOptions, log *slog.Logger) running {
				flavour := iptables.Flavour(o.flavour)
				t := iptables.New(iptables.Config{Logger: log, NetNS: netns, Flavour: flavour, Mark: 1 << o.masqueradeBit})
				return running{
					Target: t, close: t.Close,
					watch: func(ctx context.Context, lost func()) error { return t.Poll(ctx, o.poll, lost) },
					path: func(p *plan.Plan, k plan.Key) (string, error) {
						return iptables.Path(flavour, p, k, netns)
					},
				}
			},
			// Where the match for SCTP is missing, the Service is refused.
			sctp:  func() (bool, error) { return sctp(netns) },
			clean: func() error { return iptables.Clean(netns) },
			needs: func(o backendOptions) []capability {
				// Where the program cannot be asked, Apply says why it cannot be used.
				if f, err := iptables.Flavour(o.flavour).Resolve(context.Background()); err == nil && f == iptables.Legacy {
					return []capability{netAdmin, netRaw} // its programs open a raw socket
				}
				return []capability{netAdmin}
			},
			flows: true,
		},
		"userspace": {
			start: func(o backendOptions, log *slog.Logger) running {
				t := userspace.New(userspace.Config{Logger: log, NetNS: netns, StateDir: o.stateDir})
				return running{
					Target: t, close: t.Close, watch: t.Watch,
					path:   func(p *plan.Plan, k plan.Key) (string, error) { return userspace.Path(p, k, netns) },
					counts: userspaceCounts(t),
				}
			},
			clean: func() error { return userspace.Clean(netns) },
			// It answers from the port of a UDP frontend, which may be below 1024.
			needs: func(backendOptions) []capability { return []capability{netAdmin, netBind} },
		},
	}
}

// sctp tells whether the kernel tracks and translates SCTP, which shows only when
// conntrack is loaded.
func sctp(netns int) (bool, error) {
	if nftables.SCTP() {
		return true, nil
	}
	if err := nftables.LoadConntrack(netns); err != nil {
		return false, err // iptables does without nf_tables, which that takes
	}
	return nftables.SCTP(), nil
}

// userspaceCounts tell what a proxy has that ends with it, and what has ended so.
func userspaceCounts(t *userspace.Target) []count {
	return []count{
		{"plumbline_userspace_connections", "TCP connections that would end with the proxy.", func() float64 { return float64(t.Stats().Connections) }},
		{"plumbline_userspace_flows", "UDP flows that would end with the proxy.", func() float64 { return float64(t.Stats().Flows) }},
		{"plumbline_userspace_lost_connections", "TCP connections that ended with the proxy's predecessor.", func() float64 { return float64(t.Stats().LostConnections) }},
		{"plumbline_userspace_lost_flows", "UDP flows that ended with the proxy's predecessor.", func() float64 { return float64(t.Stats().LostFlows) }},
		{"plumbline_userspace_unreachable", "Endpoints that refused or did not answer so far.", func() float64 { return float64(t.Stats().Unreachable) }},
	}
}

func backendNames() []string { return slices.Sorted(maps.Keys(backends(0))) }

// backendOptions are the flags of one backend each; the names of the flags begin
// with the backend's.
type backendOptions struct {
	flavour       string
	poll          time.Duration
	masqueradeBit uint
	stateDir      string
}

func (b *backendOptions) register(fs *flag.FlagSet) {
	fs.StringVar(&b.flavour, "iptables-flavour", string(iptables.Auto), "auto (what the program iptables is), nft or legacy; legacy needs NET_RAW as well")
	fs.DurationVar(&b.poll, "iptables-poll", 10*time.Second, "`time` between two looks at the own chains: nothing else tells that somebody has changed them")
	fs.UintVar(&b.masqueradeBit, "iptables-masquerade-bit", uint(bits.TrailingZeros32(iptables.DefaultMark)), "`bit` of the packet mark that asks for masquerading, from 0 to 31; no other program on the node may use it")
	fs.StringVar(&b.stateDir, "userspace-state-dir", "/run/plumbline", "`directory` that outlives the process, where it notes what would end with it; empty: nowhere")
}

// check wants the set to be parsed.
func (b *backendOptions) check(fs *flag.FlagSet, backend string) error {
	var err error
	fs.Visit(func(f *flag.Flag) {
		owner, _, _ := strings.Cut(f.Name, "-")
		if err == nil && owner != backend && slices.Contains(backendNames(), owner) {
			err = fmt.Errorf("--%s: only with --backend %s", f.Name, owner)
		}
	})
	switch flavour := iptables.Flavour(b.flavour); {
	case err != nil:
		return err
	case flavour != iptables.Auto && flavour != iptables.NFT && flavour != iptables.Legacy:
		return fmt.Errorf("--iptables-flavour %q: give auto, nft or legacy", b.flavour)
	case b.masqueradeBit > 31:
		return fmt.Errorf("--iptables-masquerade-bit %d: give a number from 0 to 31", b.masqueradeBit)
	case b.poll < time.Second:
		return fmt.Errorf("--iptables-poll %s: give a second or more", b.poll)
	}
	return nil
}
