package ebpf

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/plan"
)

const (
	atSocket = "programs plumb_connect and plumb_sendmsg, at its socket"
	atDevice = "program plumb_ingress of the device that it comes by (first packets)"
	atLeave  = "not served; program plumb_egress stops what leaves by a device"
)

// takers tell, a line each, which programs take a connection to a frontend, by where it begins: decide
// in bpf/socket.c.
func (s *state) takers(k plan.Key, pins string) ([]string, error) {
	there, lacking, err := linked(pins)
	if err != nil {
		return nil, fmt.Errorf("look for programs at sockets: %w", err)
	}
	pod, node := atDevice, atLeave
	if len(there) > 0 {
		pod, node = s.atSockets(k)
	}
	lines := []string{"from a pod of the node: " + pod, "from the node: " + node, "from outside: " + atDevice}
	for _, name := range lacking {
		lines = append(lines, fmt.Sprintf("missing: program %s at sockets", name))
	}
	return lines, nil
}

func (s *state) atSockets(k plan.Key) (pod, node string) {
	if k.IsWildcard() {
		return atSocket, atSocket
	}
	v, ok := s.fronts[toKey(k)]
	if !ok {
		return atDevice, atLeave
	}
	f := s.frontend(toKey(k))
	in := f.Outside
	if f.Inside != nil {
		in = *f.Inside
	}
	switch caught := slices.IndexFunc(in.Endpoints, func(e plan.Endpoint) bool { return s.takes(e, k) }); {
	case f.Restricted, in.Action == plan.Drop:
		pod = atDevice
	case in.Action == plan.Forward && caught >= 0:
		pod = fmt.Sprintf("%s; where they choose %s, which is for Services too, %s", atSocket, in.Endpoints[caught], atDevice)
	default:
		pod = atSocket
	}
	own := fromAddr(s.config.Masquerade[0])
	if k.IPv6 {
		own = fromAddr(s.config.Masquerade[1])
	}
	switch {
	case in.Action == plan.Drop:
		node = atLeave
	case f.Restricted && !s.admits(v, own):
		node = fmt.Sprintf("%s: %s is not let in", atLeave, own)
	default:
		node = atSocket
	}
	return pod, node
}

// admits tells whether a source is within a frontend's ranges.
func (s *state) admits(v plumbFrontend, a netip.Addr) bool {
	for p := range s.sources[v.Sources] {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// takes tells whether a device takes what goes to an endpoint, of the protocol of a frontend, for some
// Service's: caught_again in bpf/socket.c.
func (s *state) takes(e plan.Endpoint, of plan.Key) bool {
	class := s.classes[e.Addr]
	k := plan.Key{IPv6: e.Addr.Is6(), Addr: e.Addr, Port: e.Port, Protocol: of.Protocol}
	_, exact := s.fronts[toKey(k)]
	k.Addr = netip.Addr{}
	_, port := s.fronts[toKey(k)]
	switch {
	case class != 0 && exact, class&addressNode != 0 && port, class&addressClusterIP != 0:
		return true
	}
	return s.config.Flags&configServiceCIDRs != 0 && s.within(e.Addr)&networkServices != 0
}

// within are the flags of the longest network that has an address.
func (s *state) within(a netip.Addr) (flags uint32) {
	longest := -1
	for p, f := range s.networks {
		if p.Contains(a) && p.Bits() > longest {
			longest, flags = p.Bits(), f
		}
	}
	return flags
}
