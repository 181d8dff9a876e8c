package kit

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// FreeAddr is an address for documentation (RFC 5737, RFC 3849) that no other
// behaviour has, for load balancers and externalIPs. No route leads to it but the
// default ones of pods and nodes.
func (s *Spec) FreeAddr() netip.Addr {
	n := s.number("address", 250)
	if s.Family == corev1.IPv6Protocol {
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0x51, 15: byte(n + 2)})
	}
	return netip.AddrFrom4([4]byte{198, 51, 100, byte(n + 2)})
}

// number is one below max that no behaviour has, of a kind and the family.
func (s *Spec) number(kind string, max int) int {
	n, key, ok := s.env.take(kind+string(s.Family), max)
	if !ok {
		s.Inconclusive("all %d numbers of addresses are in use", max)
	}
	s.onEnd(func() error { s.env.release(key); return nil })
	return n
}

// take is a number of a kind below max that nobody has: the one after that given last, so that
// what is remembered of it in the cluster is long gone. It is taken until its key is released.
func (e *Env) take(kind string, max int) (n int, key string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range max {
		n := (e.numbers[kind] + 1) % max
		e.numbers[kind] = n
		if key := fmt.Sprint(kind, n); !e.used[key] {
			e.used[key] = true
			return n, key, true
		}
	}
	return 0, "", false
}

func (e *Env) release(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.used, key)
}
