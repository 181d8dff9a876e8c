//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Flows are UDP flows through Services that the node remembers while endpoints are replaced.
type Flows struct {
	Open  int `json:"open"`  // when the changes began
	Ended int `json:"ended"` // since then: the dataplane had the kernel forget them
	Stale int `json:"stale"` // are left and lead to an endpoint that went
}

// String is what is left over of what there was.
func (f Flows) String() string {
	if f.Open == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d; %d ended", f.Stale, f.Open, f.Ended)
}

// flowsLast is how many seconds the node remembers a UDP flow that is not used: longer than
// all the steps.
const flowsLast = "36000"

// openFlows has the client send datagrams to all Services of UDP, from as many ports as it
// takes. Nobody answers: what is remembered of a flow is the same.
func (s *subject) openFlows(ctx context.Context) error {
	all := s.udpServices()
	if s.row.Shows != inTables || s.cfg.Flows == 0 || len(all) == 0 {
		return nil // others remember them elsewhere: userspace has a socket for each, eBPF an entry of a map
	}
	err := s.w.node.Do(func() error {
		var all error
		for _, name := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
			all = errors.Join(all, os.WriteFile(filepath.Join("/proc/sys/net/netfilter", name), []byte(flowsLast), 0o644))
		}
		return all
	})
	if err != nil {
		return fmt.Errorf("have the node remember flows: %w", err)
	}
	err = s.w.client.Do(func() error {
		for k, left := 0, s.cfg.Flows; left > 0 && ctx.Err() == nil; k++ {
			some := all[:min(len(all), left)]
			if err := sendEach(netip.AddrPortFrom(source(k).Addr(), firstPort+uint16(k/sources)), some); err != nil {
				return err
			}
			left -= len(some)
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("open flows: %w", err)
	}
	s.out.Flows.Open, _, err = s.countFlows()
	return err
}

// firstPort is the lowest that a flow begins at.
const firstPort = 1024

// mostFlows that a world has ports for, of one Service of UDP.
var mostFlows = sources * (1<<16 - firstPort)

func (s *subject) udpServices() (out []netip.AddrPort) {
	for _, i := range udpServices(s.n) {
		out = append(out, netip.AddrPortFrom(vip(i), servicePort))
	}
	return out
}

// sendEach sends one datagram to each address, from one port.
func sendEach(from netip.AddrPort, to []netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, sockaddr(from)); err != nil {
		return fmt.Errorf("bind to %s: %w", from, err)
	}
	for _, a := range to {
		if err := unix.Sendto(fd, []byte{0}, 0, sockaddr(a)); err != nil {
			return fmt.Errorf("send to %s: %w", a, err)
		}
	}
	return nil
}

// countFlows are the node's flows through Services of UDP, and of these those to endpoints
// that went.
func (s *subject) countFlows() (open, stale int, err error) {
	var flows []*netlink.ConntrackFlow
	err = s.w.node.Do(func() (err error) {
		flows, err = netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("list flows: %w", err)
	}
	went := map[netip.Addr]bool{}
	for i, now := range s.w.generation {
		for g := range now {
			went[replaced(i, g)] = true
		}
	}
	for _, f := range flows {
		to, _ := netip.AddrFromSlice(f.Reverse.SrcIP.To4())
		if f.Forward.Protocol != unix.IPPROTO_UDP || f.Forward.DstPort != servicePort {
			continue
		}
		open++
		if went[to] {
			stale++
		}
	}
	return open, stale, nil
}

// staleWithin is how long a flow may stay whose endpoint went: a dataplane waits some
// seconds for one that comes back in another slice.
const staleWithin = 30 * time.Second

// staleFlows waits until no flow leads to an endpoint that went.
func (s *subject) staleFlows(ctx context.Context) error {
	if s.out.Flows.Open == 0 {
		return nil
	}
	open, stale := 0, 0
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for end := time.Now().Add(min(staleWithin, s.cfg.Limit)); ; {
		var err error
		if open, stale, err = s.countFlows(); err != nil {
			return err
		}
		if stale == 0 || time.Now().After(end) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.out.Flows.Ended, s.out.Flows.Stale = s.out.Flows.Open-open, stale
	// Starts are measured without.
	return s.w.node.Do(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
}

// listenUDP takes what is sent to the pods, so that nobody refuses it.
func (w *world) listenUDP() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	w.datagrams = os.NewFile(uintptr(fd), "datagrams")
	return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet4{Port: int(podPort)}))
}
