package node

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits are the sizes and timeouts of conntrack that --init-only sets,
// with kube-proxy's names and defaults (pkg/proxy/apis/config of Kubernetes
// v1.36.3). 0 leaves what is there; a value may also be lower than that.
type Limits struct {
	maxPerCore, min int
	maxGiven        bool // on the command line
	timeouts        []timeout
}

type timeout struct {
	flag, path string
	value      time.Duration
}

// The defaults, and kube-proxy's cap on what the number of cores makes of them.
const (
	defaultMaxPerCore  = 32 << 10
	defaultMin         = 128 << 10
	mostByCores        = 1 << 20
	defaultEstablished = 24 * time.Hour
	defaultCloseWait   = time.Hour
)

// conntrackFlags begins the names of them all.
const conntrackFlags = "conntrack-"

// RegisterLimits has a command line set them.
func RegisterLimits(fs *flag.FlagSet) *Limits {
	c := &Limits{}
	fs.IntVar(&c.maxPerCore, "conntrack-max-per-core", defaultMaxPerCore, "with --init-only: connections to track, for each core; 0: leave nf_conntrack_max as it is. Only the host's own network namespace may write it")
	fs.IntVar(&c.min, "conntrack-min", defaultMin, "with --init-only: connections to track at least")
	const dir = "net/netfilter/nf_conntrack_"
	c.timeouts = []timeout{
		{"conntrack-tcp-timeout-established", dir + "tcp_timeout_established", defaultEstablished},
		{"conntrack-tcp-timeout-close-wait", dir + "tcp_timeout_close_wait", defaultCloseWait},
		{"conntrack-udp-timeout", dir + "udp_timeout", 0},
		{"conntrack-udp-timeout-stream", dir + "udp_timeout_stream", 0},
	}
	for i := range c.timeouts {
		t := &c.timeouts[i]
		fs.DurationVar(&t.value, t.flag, t.value, "with --init-only: idle `time` after which such a connection is forgotten; 0: leave it as it is")
	}
	return c
}

// Check wants the set to be parsed.
func (c *Limits) Check(fs *flag.FlagSet, initOnly bool) error {
	var given []string
	fs.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, conntrackFlags) {
			given = append(given, f.Name)
		}
	})
	if len(given) > 0 && !initOnly {
		return fmt.Errorf("--%s: only with --init-only; the agent itself has no right to write sysctls", given[0])
	}
	c.maxGiven = slices.Contains(given, "conntrack-max-per-core") || slices.Contains(given, "conntrack-min")
	if c.maxPerCore < 0 {
		return fmt.Errorf("--conntrack-max-per-core %d: give a number of connections, or 0 to leave the limit as it is", c.maxPerCore)
	}
	if c.min < 0 {
		return fmt.Errorf("--conntrack-min %d: give a number of connections", c.min)
	}
	for _, t := range c.timeouts {
		if t.value < 0 || t.value%time.Second != 0 {
			return fmt.Errorf("--%s %s: give whole seconds such as 30s, or 0 to leave it as it is", t.flag, t.value)
		}
	}
	return nil
}

// Sysctls are those to write on a host with so many cores. A table that may get
// larger gets more buckets with it, a quarter as kube-proxy has it, but never
// fewer.
func (c *Limits) Sysctls(cores int) []Sysctl {
	var out []Sysctl
	if c.maxPerCore > 0 {
		most := max(min(c.maxPerCore*cores, mostByCores), c.min)
		out = append(out,
			Sysctl{path: "net/netfilter/nf_conntrack_max", value: strconv.Itoa(most), conntrack: true, global: true, wanted: c.maxGiven},
			Sysctl{path: "net/netfilter/nf_conntrack_buckets", value: strconv.Itoa(most / 4), conntrack: true, global: true, wanted: c.maxGiven, atLeast: true})
	}
	for _, t := range c.timeouts {
		if t.value > 0 {
			out = append(out, Sysctl{path: t.path, value: strconv.Itoa(int(t.value / time.Second)), conntrack: true})
		}
	}
	return out
}
