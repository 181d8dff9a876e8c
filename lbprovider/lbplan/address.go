package lbplan

import (
	"hash/fnv"
	"net/netip"
)

// maxTried bounds the search in a range (an IPv6 range never ends).
const maxTried = 1 << 16

// AddressRequest is what is known about the address one LB should have in one
// family. Invalid addresses are not known.
type AddressRequest struct {
	Key       string     // the same for the same Service, also when it is made anew
	Pinned    netip.Addr // spec.loadBalancerIP: this one or none
	Recorded  netip.Addr // where the LB already is
	Published netip.Addr // what its status says
}

// ChooseAddress picks the address of one LB in rng. taken maps every address
// that others use on the network to who uses it. The order of preference is
// pinned, recorded, published, and then a walk through the range that begins
// at a hash of the key, so that without any memory a Service nearly always
// gets the address it had.
//
// The error is always a *Refusal.
func ChooseAddress(r AddressRequest, rng netip.Prefix, taken map[netip.Addr]string) (netip.Addr, error) {
	rng = rng.Masked()
	if r.Pinned.IsValid() {
		if !usable(r.Pinned, rng) {
			return netip.Addr{}, refuse("loadBalancerIP %s is not within the load-balancer range %s", r.Pinned, rng)
		}
		if who, ok := taken[r.Pinned]; ok {
			return netip.Addr{}, refuse("loadBalancerIP %s is taken by %s", r.Pinned, who)
		}
		return r.Pinned, nil
	}
	for _, a := range []netip.Addr{r.Recorded, r.Published} {
		if _, used := taken[a]; a.IsValid() && !used && usable(a, rng) {
			return a, nil
		}
	}
	n := size(rng)
	start := hash(r.Key) % n
	for i := range n {
		a := add(rng.Addr(), (start+i)%n)
		if _, used := taken[a]; !used && usable(a, rng) {
			return a, nil
		}
	}
	return netip.Addr{}, refuse("no free address left in the load-balancer range %s", rng)
}

// usable leaves out the first address of a range, and the last of an IPv4 one:
// they may be the network, subnet-router anycast or broadcast address.
func usable(a netip.Addr, rng netip.Prefix) bool {
	if !rng.Contains(a) || a == rng.Addr() {
		return false
	}
	return !a.Is4() || a.Next().IsValid() && rng.Contains(a.Next())
}

func size(rng netip.Prefix) uint64 {
	host := rng.Addr().BitLen() - rng.Bits()
	if host >= 16 {
		return maxTried
	}
	return 1 << host
}

func hash(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}

func add(a netip.Addr, n uint64) netip.Addr {
	b := a.As16()
	for i := 15; i >= 0 && n > 0; i-- {
		n += uint64(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	out := netip.AddrFrom16(b)
	if a.Is4() {
		return out.Unmap()
	}
	return out
}
