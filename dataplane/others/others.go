//go:build linux

// Package others finds who proxies Services in a network namespace, by what they leave
// there: so that nobody takes their work for that of the dataplane under test.
//
//	found, err := others.Find(others.Config{Cgroup: "/sys/fs/cgroup"})
//	found[0].String()    // kube-proxy: table ip kube-proxy
//
// What is looked at, each by its own file:
//
//	rules.go      nftables, and iptables-nft: tables and chains by their names
//	legacy.go     iptables-legacy
//	ipvs.go       virtual services of IPVS
//	programs.go   eBPF: sockets' hooks of the root cgroup, and tc programs by their names
//	processes.go  agents that run in the namespace, and links that only they make
//	above.go      programs that run at the sockets of a cgroup, of whatever cgroup above: AtSockets
//	kubeproxy.go  everything of kube-proxy's, for who takes its place
//	forward.go    what drops forwarded packets, whosever it is: ForwardDrops
//
// Names are those of upstream: kube-proxy (pkg/proxy), Cilium (bpf/), Calico (felix/bpf),
// kube-router, Antrea, OVN-Kubernetes, and our own. A proxy of another kind is not
// recognised here: whether somebody answers for a Service is a matter of asking.
//
// Concurrency: none; Find looks at the namespace of the thread that calls it.
package others

import (
	"cmp"
	"errors"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Trace is something that a Service proxy left or keeps in a namespace.
type Trace struct {
	Who  string // "kube-proxy"
	What string // "table ip kube-proxy"
	// Network says that it is found as well where Who is no more than the pods' network:
	// alone it proves nothing.
	Network bool
}

func (t Trace) String() string { return t.Who + ": " + t.What }

// Config says where to look.
type Config struct {
	Proc   string // default /proc: the processes of the node
	Cgroup string // the root of the node's cgroups; empty: not looked at
}

func (c Config) proc() string { return cmp.Or(c.Proc, "/proc") }

// Find lists the traces in order, without repetition. An error says what could not be
// looked at; what was found beside it is returned too.
func Find(cfg Config) ([]Trace, error) {
	cfg.Proc = cfg.proc()
	var out []Trace
	var errs []error
	for _, look := range []func(Config) ([]Trace, error){nftables, legacy, ipvs, sockets, filters, links, processes} {
		found, err := steady(func() ([]Trace, error) { return look(cfg) })
		out, errs = append(out, found...), append(errs, err)
	}
	slices.SortFunc(out, func(a, b Trace) int { return cmp.Or(cmp.Compare(a.Who, b.Who), cmp.Compare(a.What, b.What)) })
	return slices.Compact(out), errors.Join(errs...)
}

// tries bounds how often is looked anew because something came or went meanwhile.
const tries = 5

// steady looks until nothing came or went meanwhile.
func steady[T any](look func() (T, error)) (found T, err error) {
	for range tries {
		found, err = look()
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) &&
			!errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return found, err
}
