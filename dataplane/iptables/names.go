package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"math"
	"net/netip"
	"strings"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Prefix begins the name of every chain and `recent` list of ours.
const Prefix = "PLUMB-"

// The chains that do not depend on any Service.
const (
	services    = Prefix + "SERVICES"
	nodePorts   = Prefix + "NODEPORTS"
	postrouting = Prefix + "POSTROUTING"
	masq        = Prefix + "MASQ"
	masqOff     = Prefix + "MASQ-OFF"

	filter      = Prefix + "FILTER"
	refuse      = Prefix + "REFUSE"
	refusePorts = Prefix + "REFUSE-PORTS"
	unclaimed   = Prefix + "UNCLAIMED"
	reject      = Prefix + "REJECT"
	forward     = Prefix + "FORWARD"
	health      = Prefix + "HEALTH"
)

// The kinds of chains that belong to a frontend; a hash follows.
const (
	kindService  = "SVC" // a route, the Cluster one if there are two
	kindLocal    = "SVL" // the outside route of a frontend with an inside
	kindExternal = "EXT" // chooses between the two
	kindFirewall = "FW"  // lets source ranges in
	kindEndpoint = "SEP" // one endpoint: hairpin and dnat
	kindRefuse   = "REF" // filter: refuses by source range
	kindRefuseIn = "RFS" // filter: refuses by where the source is
)

// chainName is readable and at most 26 characters; the kernel takes 28. Only a
// hash of the key is in it: 80 bits, so that no two frontends of a node meet.
func chainName(kind string, of ...any) string { return Prefix + kind + "-" + hash(kind, of) }

func hash(kind string, of []any) string {
	sum := sha256.Sum256([]byte(fmt.Sprintln(append([]any{kind}, of...)...)))
	return base32.StdEncoding.EncodeToString(sum[:10])
}

// listName is the `recent` list of those a Service port sent to an endpoint.
func listName(group plan.Key, e plan.Endpoint) string {
	return Prefix + hash("recent", []any{group, e.Addr, e.Port})
}

// ip is an address as iptables-save prints it: as Go does, but for IPv6
// addresses that end in an IPv4 one the old way (RFC 4291 2.5.5.1).
func ip(a netip.Addr) string {
	if b := a.As16(); a.Is6() && [12]byte(b[:12]) == [12]byte{} && (b[12] != 0 || b[13] != 0) {
		return "::" + netip.AddrFrom4([4]byte(b[12:])).String()
	}
	return a.WithZone("").String()
}

// in matches a network by option -s or -d; nothing for one that holds everything,
// which iptables-save leaves out.
func in(option string, p netip.Prefix) string {
	if p.Bits() == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s/%d ", option, ip(p.Masked().Addr()), p.Bits())
}

func host(option string, a netip.Addr) string {
	return in(option, netip.PrefixFrom(a, a.BitLen()))
}

// match is what a packet to a frontend shows.
func match(k plan.Key) string {
	var out string
	if !k.IsNodePort() {
		out = host("-d", k.Addr)
	}
	if !k.IsWildcard() {
		out += protocol(k.Protocol) + fmt.Sprintf("-m %s --dport %d ", k.Protocol, k.Port)
	}
	return out
}

func protocol(p objects.Protocol) string { return fmt.Sprintf("-p %s ", p) }

// random is 1/n as the kernel keeps it, in 31 bits, and as both flavours print it.
func random(n int) string {
	const scale = 1 << 31
	kept := math.RoundToEven(scale / float64(n))
	return fmt.Sprintf("-m statistic --mode random --probability %.11f ", kept/scale)
}

// recent is a use of a list, by source address.
func recent(v6 bool, action, list string) string {
	mask := "255.255.255.255"
	if v6 {
		mask = strings.Repeat("ffff:", 7) + "ffff"
	}
	return fmt.Sprintf("-m recent %s --name %s --mask %s --rsource ", action, list, mask)
}
