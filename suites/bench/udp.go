//go:build linux

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// UDPConnects are connect(2) of UDP sockets on the node, to a Service and to an endpoint in turn:
// no packet goes. More is the median of the differences of each pair.
type UDPConnects struct {
	Pairs            int
	Direct, More     time.Duration
	MoreP10, MoreP90 time.Duration
}

// String is what more it takes.
func (u UDPConnects) String() string {
	if u.Pairs == 0 {
		return ""
	}
	return fmt.Sprintf("%s more (p10 %s, p90 %s) than %s", signed(u.More), signed(u.MoreP10), signed(u.MoreP90), short(u.Direct))
}

func signed(d time.Duration) string {
	if d < 0 {
		return "-" + short(-d)
	}
	return cmp.Or(short(d), "0")
}

// udpConnects times them, all lanes in turn, for so long each.
func udpConnects(ctx context.Context, lanes []*lane, each time.Duration) error {
	defer holdGarbage()()
	if len(lanes) == 0 {
		return nil
	}
	all := udpServices(lanes[0].s.n)
	if len(all) == 0 {
		return nil
	}
	direct, more := make([][]time.Duration, len(lanes)), make([][]time.Duration, len(lanes))
	end := time.Now().Add(each * time.Duration(len(lanes)))
	for first := uint64(0); time.Now().Before(end) && ctx.Err() == nil; first++ {
		r := rand.New(rand.NewPCG(6, first))
		for _, which := range r.Perm(len(lanes)) {
			if l := lanes[which]; !l.over && l.row.Lacks == "" {
				if err := l.pairs(r, all, &direct[which], &more[which]); err != nil {
					return err
				}
			}
		}
	}
	for i, l := range lanes {
		if n := len(more[i]); n > 0 {
			slices.Sort(direct[i])
			slices.Sort(more[i])
			l.row.UDPConnects = UDPConnects{Pairs: n, Direct: direct[i][n/2], More: more[i][n/2], MoreP10: more[i][n/10], MoreP90: more[i][n*9/10]}
		}
	}
	return ctx.Err()
}

// pairs times a round of them.
func (l *lane) pairs(r *rand.Rand, all []int, direct, more *[]time.Duration) error {
	return l.s.w.asNode(func() error {
		for range round {
			i := all[r.IntN(len(all))]
			past, err := connectUDP(netip.AddrPortFrom(pod(i, 1), podPort))
			if err != nil {
				return fmt.Errorf("past %s: %w", l.s.row.Name(), err)
			}
			through, err := connectUDP(netip.AddrPortFrom(vip(i), servicePort))
			if _, own := errors.AsType[ownError](err); own {
				return err
			}
			if err != nil {
				return l.ended("connect(2) of UDP", rowsEnd{fmt.Errorf("service %d: %w", i, err)})
			}
			*direct, *more = append(*direct, past), append(*more, through-past)
		}
		return nil
	})
}

func connectUDP(to netip.AddrPort) (time.Duration, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, ownError{fmt.Errorf("open socket: %w", err)}
	}
	defer unix.Close(fd)
	return connect(fd, to)
}
