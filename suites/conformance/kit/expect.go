package kit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Client is where attempts are made from, and a server at the same place.
type Client struct {
	Name   string
	probe  *remote.Client
	addrs  map[corev1.IPFamily]netip.Addr
	router *Node      // of a host beyond it, which reaches the cluster by this node alone
	source netip.Addr // that it dials from; none: the kernel's choice
}

// Addr is its address of a family.
func (c Client) Addr(f corev1.IPFamily) netip.Addr { return c.addrs[f] }

// at is the client's name, with the node that it is beyond and the address that it is told to
// dial from: it tells clients apart.
func (c Client) at() string {
	at := c.Name
	if c.router != nil {
		at += " beyond " + c.router.Name
	}
	if c.source.IsValid() {
		at += " at " + c.source.String()
	}
	return at
}

// Probe is for what expectations do not cover: connections that last, streams,
// fixed source ports, HTTP.
func (c Client) Probe() *remote.Client { return c.probe }

// Target is what is attempted.
type Target struct {
	network remote.Network
	to      netip.AddrPort
}

// TCP is a new connection for each attempt.
func TCP(to netip.AddrPort) Target { return Target{remote.TCP, to} }

// UDP is a datagram from a new port for each attempt, and its answer.
func UDP(to netip.AddrPort) Target { return Target{remote.UDP, to} }

// SCTP is a new association for each attempt.
func SCTP(to netip.AddrPort) Target { return Target{remote.SCTP, to} }

// MayBeUnsummed tells whether what is sent to it may go without a checksum: by UDP over IPv4.
func (t Target) MayBeUnsummed() bool { return t.network == remote.UDP && t.to.Addr().Is4() }

func (t Target) String() string { return fmt.Sprintf("%s/%s", t.to, t.network) }

// Want is what every attempt of an expectation must come to.
type Want struct {
	text      string
	n         int
	servers   []Client // answers come from these alone, and from each of them
	class     func(remote.Result) bool
	source    func(seen, client netip.Addr) bool // of answers; nil: any
	sources   string                             // the same in words
	refusal   bool                               // of each attempt: where ICMP is limited, of no more at once than it may refuse
	byPods    bool                               // pods' kernels are to refuse, which limit ICMP everywhere
	some      bool                               // of the servers one may answer alone
	said      bool                               // what it came to is said, for several ways are right
	ports     []uint16                           // of each server, all of which answer and no others; none: it may be any
	anyShares bool                               // of the ports
	timeout   time.Duration
}

// attemptsPerServer makes it all but impossible (1 in 10^14 for two, 1 in 10^9 for thirty) that
// chance spares one of the servers. Of few servers there are more: what goes wrong now and then
// is to be met.
const (
	attemptsPerServer = 24
	leastAttempts     = 40
)

// silence is how long an attempt waits that is expected to be dropped, and how
// many of them there are.
const (
	silence   = 300 * time.Millisecond
	silentTry = 24
)

// Only wants answers from these and nobody else, from each at least one. Of a dataplane that
// declares to choose by the client's address (spread-per-client unsupported) one will do.
func Only(servers ...Client) Want {
	var names []string
	for _, c := range servers {
		names = append(names, c.Name)
	}
	return Want{
		text: "answers of " + strings.Join(names, ", ") + " alone", n: max(leastAttempts, attemptsPerServer*len(servers)), servers: servers,
		class: func(r remote.Result) bool { return r.Class == remote.OK },
	}
}

// Pods is Only for pods.
func Pods(pods ...*Pod) Want {
	var clients []Client
	for _, p := range pods {
		clients = append(clients, p.Client)
	}
	return Only(clients...)
}

// Dropped wants silence for each attempt.
func Dropped() Want {
	return Want{text: "silence", n: silentTry, timeout: silence, class: func(r remote.Result) bool {
		return r.Class == remote.Timeout
	}}
}

// Unreachable wants no answer of a server, whichever way it is refused, and says which.
func Unreachable() Want {
	return Want{text: "no answer", n: silentTry, timeout: silence, said: true, class: func(r remote.Result) bool {
		return r.Class != remote.OK && r.Class != remote.LocalErr
	}}
}

// FromItself wants servers to see the client's own address.
func (w Want) FromItself() Want {
	w.source, w.sources = func(seen, client netip.Addr) bool { return seen == client }, "the client's own address"
	return w
}

// From wants servers to see one of these addresses.
func (w Want) From(addrs ...netip.Addr) Want {
	w.source, w.sources = func(seen, _ netip.Addr) bool { return slices.Contains(addrs, seen) }, fmt.Sprint(addrs)
	return w
}

// OneWillDo lets any of the servers be left out, but not all.
func (w Want) OneWillDo() Want {
	w.some = true
	w.text += ", of whom one will do"
	return w
}

// Times changes the number of attempts.
func (w Want) Times(n int) Want { w.n = n; return w }

// Expect makes attempts and demands that every one comes to what is wanted. While
// the dataplane may be late (Limit after the last change) and as long as the same
// has not held since, it is asked again; the time it took is reported. What held late
// must go on to hold.
func (s *Spec) Expect(c Client, t Target, w Want) { s.expect(c, t, w, nil) }

// expect is Expect, after a round that was wrong; nil: there was none.
func (s *Spec) expect(c Client, t Target, w Want, before *remote.Results) {
	for {
		began := time.Now()
		res, waited, wrong := s.attempt(c, t, w)
		began = began.Add(waited)
		if before == nil || s.limited(w, before) {
			s.at = s.at.Add(waited) // which is no lateness: nothing is known to have been wrong
		}
		if wrong == "" {
			s.holds(c, t, w, began)
			s.told(c, t, w, res)
			if before != nil && !s.limited(w, res) { // there were as many as there may be
				s.goesOn(c, t, w, began.Sub(s.at))
			}
			return
		}
		s.unexpected(c, t, w, res)
		s.fellBack(c, t, w, s.held[w.key(c, t)] && !s.limited(w, res), wrong)
		if time.Since(s.at) > s.limit() {
			s.Fail("%s to %s: want %s within %s of the last change, but %s", c.at(), t, w.text, s.limit(), wrong)
		}
		s.knock(c, t, w)
		before = res
	}
}

// fellBack fails for what was wrong after it had held since the last change.
func (s *Spec) fellBack(c Client, t Target, w Want, held bool, wrong string) {
	if held {
		s.Fail("%s to %s: want %s, but %s", c.at(), t, w.text, wrong)
	}
}

// key tells expectations apart.
func (w Want) key(c Client, t Target) string {
	return c.at() + " " + t.String() + " " + w.text + w.sources
}

// holds notes that what is wanted held with attempts that began at a time.
func (s *Spec) holds(c Client, t Target, w Want, began time.Time) {
	if key := w.key(c, t); !s.held[key] {
		s.delay = max(s.delay, began.Sub(s.at))
		s.held[key] = true
		s.good = append(s.good, asking{Way{c, t}, w})
	}
}

// told says what it came to, where several ways are right.
func (s *Spec) told(c Client, t Target, w Want, res *remote.Results) {
	if w.said {
		s.Say("%s to %s: %s", c.at(), t, res.Summary())
	}
}

// confirmations are how often what held late is asked again, at once: a dataplane that
// wavers would otherwise pass as soon as it is right by chance.
const confirmations = flowTries - 1

// goesOn demands that what held late holds again, each time.
func (s *Spec) goesOn(c Client, t Target, w Want, late time.Duration) {
	if w.refusal {
		w.timeout = remote.DefaultTimeout // nothing is late any more: as long as for answers
	}
	for range confirmations {
		if _, _, wrong := s.attempt(c, t, w); wrong != "" {
			s.Fail("%s to %s: want %s, which held after %s, then did not: %s", c.at(), t, w.text, late.Round(time.Millisecond), wrong)
		}
	}
}

// attempt makes the attempts once, and says how long they had to wait until ICMP might refuse
// them, and what is wrong with the results.
func (s *Spec) attempt(c Client, t Target, w Want) (res *remote.Results, waited time.Duration, wrong string) {
	w = s.spread(w)
	s.asks(c, t)
	if s.planned != nil {
		s.must(w.batch(c, t).Check(), "attempts of %s to %s", c.at(), t)
		return s.plan(c, t, w), 0, ""
	}
	res, waited, err := s.tries(asking{Way{c, t}, w}, silentTry)
	s.must(err, "attempts of %s to %s", c.at(), t)
	return res, waited, s.judged(c, t, w, res)
}

// batch is the attempts of a client at a target that show what is wanted.
func (w Want) batch(c Client, t Target) remote.Batch {
	b := remote.Batch{Network: t.network, Target: t.to, Source: c.source, Attempts: w.n, Concurrency: min(w.n, map[bool]int{true: 16, false: silentTry}[w.timeout == 0]), Timeout: w.timeout}
	if t.network == remote.TCP && len(w.servers) > 0 {
		b.Patience = patience
	}
	return b
}

// patience is for servers that have no processor for a while: so much later may an answer come on a
// connection that had reached them in time.
const patience = 2 * time.Second

// judged notes attempts, and says what is wrong with their results.
func (s *Spec) judged(c Client, t Target, w Want, res *remote.Results) string {
	s.attempts += len(res.Attempts)
	s.tried(trial{client: c, to: t, n: len(res.Attempts), servers: w.servers, res: res})
	wrong := w.wrong(res, c.addrs)
	s.dialled(Way{c, t}, w, res, wrong)
	s.sound(c, t, res)
	return wrong
}

// spread is what is wanted of a dataplane that may send a client to one endpoint alone.
func (s *Spec) spread(w Want) Want {
	_, declared := s.env.cfg.Features[FeatureSpread]
	w.some = w.some || declared
	return w
}

// starved is how far behind a probe may be with an attempt before that says more of the
// probe than of what it met.
const starved = time.Second

// sound makes sure that attempts can be judged: the client itself could make each, and
// in time.
func (s *Spec) sound(c Client, t Target, res *remote.Results) {
	for _, r := range res.Attempts {
		switch {
		case r.Class == remote.LocalErr:
			s.Inconclusive("%s to %s: the client itself failed: %s", c.at(), t, r)
		case r.Late > starved:
			s.Inconclusive("%s to %s: the client itself was %s late with an attempt: %s", c.at(), t, r.Late.Round(time.Millisecond), r)
		}
	}
}

// wrong says in what results differ from what is wanted; empty: in nothing.
func (w Want) wrong(res *remote.Results, own map[corev1.IPFamily]netip.Addr) string {
	seen, at := map[string]bool{}, map[place]int{}
	for _, r := range res.Attempts {
		switch {
		case !w.class(r):
			return fmt.Sprintf("%s; one was %s", res.Summary(), r)
		case r.Class != remote.OK:
			continue
		case !slices.ContainsFunc(w.servers, func(c Client) bool { return c.Name == r.Name }):
			return fmt.Sprintf("%s answered (%s)", r.Name, res.Summary())
		case len(w.ports) > 0 && !slices.Contains(w.ports, r.Dst.Port()):
			return fmt.Sprintf("%s answered at its port %d (%s)", r.Name, r.Dst.Port(), res.Summary())
		case w.source != nil && !w.source(r.Seen.Addr().Unmap(), own[familyOf(r.Seen.Addr().Unmap())]):
			return fmt.Sprintf("%s saw %s as the source, want %s", r.Name, r.Seen.Addr(), w.sources)
		}
		seen[r.Name] = true
		at[place{r.Name, r.Dst.Port()}]++
	}
	for _, c := range w.servers {
		if !seen[c.Name] && (!w.some || len(seen) == 0) {
			return fmt.Sprintf("%s never answered (%s)", c.Name, res.Summary())
		}
		for _, port := range w.ports {
			if !w.some && at[place{c.Name, port}] == 0 {
				return fmt.Sprintf("%s never answered at its port %d (%s)", c.Name, port, res.Summary())
			}
		}
	}
	if len(w.ports) > 0 && !w.some && !w.anyShares {
		return uneven(at)
	}
	return ""
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}
