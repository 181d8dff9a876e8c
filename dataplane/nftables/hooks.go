package nftables

import (
	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"
)

func parseHook(typ, attrs string) hook {
	return hook{typ: lib.ChainType(typ), num: be32(attr(attrs, unix.NFTA_HOOK_HOOKNUM)), priority: int32(be32(attr(attrs, unix.NFTA_HOOK_PRIORITY)))}
}

// holds tells whether the kernel has a chain as it should be.
func (s *state) holds(f family, c chain) bool {
	st, there := s.chains[chainAt{f.v6, c.name}]
	if !there {
		return false
	}
	if c.hook == nil && st.hook != (hook{}) || c.hook != nil && (st.hook != *c.hook || st.policy != policyAccept) {
		return false
	}
	want := ""
	for _, r := range c.rules {
		exprs, err := f.encode(r)
		if err != nil {
			return false // writing it will say so
		}
		want += mark(exprs) + "|"
	}
	return st.marks == want
}
