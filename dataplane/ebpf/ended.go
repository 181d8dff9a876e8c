package ebpf

import (
	"time"

	"golang.org/x/sys/unix"
)

// What the programs say of how long entries last (alive in bpf/flow.h, FRAGMENTS_FOR in
// bpf/plumb.c).
const (
	tcpSYNFor     = 60 * time.Second
	tcpFor        = 6 * time.Hour
	tcpClosingFor = 120 * time.Second
	tcpResetFor   = 10 * time.Second
	tcpEndedFor   = 61 * time.Second
	udpFor        = 120 * time.Second
	udpShortFor   = 30 * time.Second
	fragmentsFor  = 30 * time.Second
	sentFor       = udpFor // as conntrack would keep it (nf_conntrack_udp_timeout_stream)
)

func flowEnded(k plumbFlowKey, f plumbFlow, now uint64) bool {
	return since(f.Seen, now) >= lasts(k.Proto, f.State)
}

func lasts(proto, state uint8) time.Duration {
	established := state&flowEstablished != 0
	switch {
	case proto == unix.IPPROTO_UDP && established:
		return udpFor
	case proto == unix.IPPROTO_UDP:
		return udpShortFor
	case state&flowReset != 0:
		return tcpResetFor
	case state&flowFINs == flowFINs:
		return tcpEndedFor
	case state&flowFINs != 0:
		return tcpClosingFor
	case established:
		return tcpFor
	}
	return tcpSYNFor
}

func portsEnded(_ plumbFragmentKey, p plumbPorts, now uint64) bool {
	return since(p.Seen, now) >= fragmentsFor
}

func sentEnded(_ socketSentKey, s socketSent, now uint64) bool { return since(s.Seen, now) >= sentFor }

// spokenEnded: what is connected is so until its socket is closed, with which its entry goes.
func spokenEnded(uint64, plumbPeer, uint64) bool { return false }

// affinityEnded goes by how long the frontend was to remember when it last did.
func affinityEnded(_ plumbAffinityKey, a plumbAffinity, now uint64) bool {
	return since(a.Used, now) > time.Duration(a.Lasts)*time.Second
}

// since is never negative: a processor may have written a moment that is to come for this one.
func since(then, now uint64) time.Duration { return max(0, time.Duration(now-then)) }

// uptime is the programs' clock, in ns.
func uptime() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it is always there
	return uint64(ts.Nano())
}
