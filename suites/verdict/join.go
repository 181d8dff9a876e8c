package verdict

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// joinWithin bounds how far an attempt's handshake and the accept that the LB
// logged may lie apart; local ports are used again after a while.
const joinWithin = 5 * time.Second

// join finds each attempt's connection in the LB's log, in planned order.
func join(attempts []record.Attempt, conns []record.Conn, s Settings) []outcome {
	byClient := map[netip.AddrPort][]*record.Conn{}
	for i, c := range conns {
		if (s.LB == "" || c.LB == "" || c.LB == s.LB) && (s.Family == "" || record.FamilyOf(c.Client.Addr()) == s.Family) {
			key := unmap(c.Client)
			byClient[key] = append(byClient[key], &conns[i])
		}
	}
	out := make([]outcome, 0, len(attempts))
	for _, a := range attempts {
		o := outcome{Attempt: a}
		best := joinWithin.Nanoseconds()
		if a.Src.IsValid() {
			for _, c := range byClient[unmap(a.Src)] {
				if d := abs(c.Accepted - a.Connected); d <= best {
					o.conn, best = c, d
				}
			}
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.Intended, b.Intended), cmp.Compare(a.Seq, b.Seq))
	})
	return out
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func abs(n int64) int64 { return max(n, -n) }
