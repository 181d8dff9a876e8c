package kit

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Kernels limit the rate of ICMP errors to an address: so many at once (XRLIM_BURST_FACTOR of
// net/ipv4/inetpeer.c), and then one in so long (icmp_ratelimit of Documentation/networking/ip-sysctl;
// for ICMPv6 it is as long or shorter). Resets have no limit. What else comes from an address takes some
// of it too, and so where errors are limited, silence beside some is asked again.
const (
	icmpAtOnce = 6
	icmpEach   = time.Second
	// icmpTick is by how much less than has passed kernels may count: some of a clock that moves by ticks, of
	// 10 ms at most.
	icmpTick = 10 * time.Millisecond
)

// icmpTries are the attempts that ICMP is to refuse, each of them: fewer than there may be at once, for
// other behaviours ask from the same places.
const icmpTries = 3

// refused is what a host says of a port where nobody listens, and a Service without
// endpoints alike: a TCP reset or ICMP port unreachable, or, where a Service is translated at
// the socket, ECONNREFUSED of the call itself, with nothing on the wire. Any other ICMP is a
// router's.
func refused(r remote.Result) bool { return r.Class == remote.Refused || byICMP(r) }

func byICMP(r remote.Result) bool { return r.Class == remote.ICMPPort }

// Rejected wants a refusal of each attempt: a TCP reset, ICMP port unreachable, or that of the call.
// Those that ICMP is to refuse are few where it is limited, and begin when it may.
func Rejected() Want {
	return Want{text: "a refusal", n: silentTry, timeout: silence, class: refused, refusal: true}
}

// ByPods is of refusals that pods give themselves.
func (w Want) ByPods() Want { w.byPods = true; return w }

// unlimit has nodes send each ICMP error that there is cause for (Documentation/networking/ip-sysctl:
// icmp_ratemask, and net/ipv6/icmp/ratemask, which no type of error is in then): a dataplane that refuses
// most attempts and drops a few cannot be told otherwise from a kernel that has said enough.
func (e *Env) unlimit(ctx context.Context) error {
	const script = `echo 0 >/proc/sys/net/ipv4/icmp_ratemask && if [ -e /proc/sys/net/ipv6/icmp/ratemask ]; then echo 255 >/proc/sys/net/ipv6/icmp/ratemask; fi`
	nodes, err := e.stage.Cluster().Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if _, err := e.stage.Cluster().Exec(ctx, n.Name, "sh", "-c", script); err != nil {
			return fmt.Errorf("have node %s send every ICMP error: %w", n.Name, err)
		}
	}
	e.unlimited = true
	return nil
}

// scarce tells whether ICMP errors are limited that are to be what is wanted.
func (s *Spec) scarce(w Want) bool { return w.refusal && (w.byPods || !s.env.unlimited) }

// limited tells whether there may be no more of them for a while, by what attempts came to.
func (s *Spec) limited(w Want, res *remote.Results) bool { return s.scarce(w) && w.limited(res) }

// allowance is how many ICMP errors a client may still be sent, as far as it is known: nodes count
// for themselves, and this counts for all.
type allowance struct {
	turn sync.Mutex // held for attempts that ICMP is to refuse

	mu   sync.Mutex // guards the fields below
	used float64    // of those at once
	at   time.Time  // when that was so
}

// ready is how long it takes until icmpTries may be sent at once.
func (a *allowance) ready(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := time.Duration((a.usedAt(now) - icmpAtOnce + icmpTries) * float64(icmpEach))
	if left <= 0 {
		return 0
	}
	return left + icmpTick
}

func (a *allowance) usedAt(now time.Time) float64 {
	return max(0, a.used-now.Sub(a.at).Seconds()/icmpEach.Seconds())
}

// spent notes what attempts came to. Where some were refused by ICMP and others met silence, none is
// left, whoever had the rest.
func (a *allowance) spent(now time.Time, res *remote.Results) {
	sum := res.Summary()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := sum.Class[remote.ICMPPort]
	a.used, a.at = min(icmpAtOnce, a.usedAt(now)+float64(n)), now
	if n > 0 && sum.Class[remote.Timeout] > 0 {
		a.used = icmpAtOnce
	}
}

// limited tells whether ICMP refused attempts that were to be refused, and nothing else came: there may be
// no more of it for a while.
func (w Want) limited(res *remote.Results) bool {
	sum := res.Summary()
	return w.refusal && sum.Class[remote.ICMPPort] > 0 && sum.Class[remote.ICMPPort]+sum.Class[remote.Timeout] == len(res.Attempts)
}

// allowance is that of the address that a client dials a target from.
func (e *Env) allowance(c Client, t Target) *allowance {
	from := c.Addr(t.family())
	if c.source.IsValid() {
		from = c.source
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.allowances == nil {
		e.allowances = map[netip.Addr]*allowance{}
	}
	if e.allowances[from] == nil {
		e.allowances[from] = &allowance{}
	}
	return e.allowances[from]
}

// spent notes what attempts of a client came to, and whether ICMP is what refuses them.
func (e *Env) spent(c Client, t Target, res *remote.Results) {
	if res == nil {
		return
	}
	e.allowance(c, t).spent(time.Now(), res)
	if slices.ContainsFunc(res.Attempts, byICMP) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.icmp == nil {
			e.icmp = map[remote.Network]bool{}
		}
		e.icmp[t.network] = true
	}
}

func (e *Env) refusesByICMP(n remote.Network) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.icmp[n]
}

// tries makes the attempts of a way that are to show what is wanted, so many at a time, and says how long they
// had to wait until ICMP might refuse them.
func (s *Spec) tries(a asking, atOnce int) (res *remote.Results, waited time.Duration, err error) {
	b := a.want.batch(a.From, a.To)
	b.Concurrency = min(b.Concurrency, atOnce)
	if a.want.timeout == 0 { // answers are wanted
		res, err = a.From.probe.Batch(s.ctx, b)
		s.env.spent(a.From, a.To, res) // until they come
		return res, 0, err
	}
	scarce := s.scarce(a.want)
	if scarce && s.env.refusesByICMP(a.To.network) {
		began, left := time.Now(), s.env.allowance(a.From, a.To)
		left.turn.Lock()
		defer left.turn.Unlock()
		if err := kubewait.Pause(s.ctx, left.ready(time.Now())); err != nil {
			return nil, 0, err
		}
		waited = time.Since(began)
	}
	if scarce {
		res, err = a.refusals(s.ctx, b)
	} else {
		res, err = a.From.probe.Batch(s.ctx, b)
	}
	s.env.spent(a.From, a.To, res)
	return res, waited, err
}

// refusals makes attempts that may be refused: if it is not ICMP that refuses the first few, all of them. Those
// are made one by one: of two errors at once, on two processors, the kernel may hold one back that there was
// room for (inet_peer_xrlim_allow takes no lock).
func (a asking) refusals(ctx context.Context, b remote.Batch) (*remote.Results, error) {
	if b.Attempts <= icmpTries {
		return a.From.probe.Batch(ctx, b)
	}
	rest, atOnce := b.Attempts-icmpTries, b.Concurrency
	b.Attempts, b.Concurrency = icmpTries, 1
	res, err := a.From.probe.Batch(ctx, b)
	if err != nil || slices.ContainsFunc(res.Attempts, func(r remote.Result) bool { return r.Class != remote.Refused }) {
		return res, err
	}
	b.Attempts, b.Concurrency = rest, atOnce
	more, err := a.From.probe.Batch(ctx, b)
	if err == nil {
		res.Attempts = append(res.Attempts, more.Attempts...)
	}
	return res, err
}
