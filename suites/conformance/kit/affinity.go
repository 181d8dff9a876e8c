package kit

import (
	"fmt"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// ExpectOne makes n attempts and demands that one of the servers answers them
// all; it returns which. The first attempt is made alone: of packets that are
// looked up at once, each finds no record yet and makes its own. From here on an
// Expect of Only(that server) must hold at once; it must already if this held late.
func (s *Spec) ExpectOne(c Client, t Target, n int, servers ...Client) Client {
	for first := true; ; first = false {
		began := time.Now()
		res, server, wrong := s.one(c, t, n, servers)
		if wrong == "" {
			only := Only(server)
			s.delay = max(s.delay, began.Sub(s.at))
			s.held[only.key(c, t)] = true
			if !first {
				s.goesOn(c, t, only.Times(n), began.Sub(s.at))
			}
			return server
		}
		s.unexpected(c, t, Want{text: "one server's answers", servers: servers}, res)
		if time.Since(s.at) > s.limit() {
			s.tried(trial{client: c, to: t, n: n, servers: servers, res: res})
			s.Fail("%s to %s: want all of %d attempts at one server, but %s", c.at(), t, n, wrong)
		}
		s.must(kubewait.Pause(s.ctx, s.pace()), "wait for the next attempts")
	}
}

func (s *Spec) one(c Client, t Target, n int, servers []Client) (*remote.Results, Client, string) {
	w := Want{text: "one answer of " + names(servers), n: 1, servers: servers, class: func(r remote.Result) bool { return r.Class == remote.OK }}
	res, _, _ := s.attempt(c, t, w)
	at := slices.IndexFunc(servers, func(o Client) bool { return o.Name == res.Attempts[0].Name })
	switch first := res.Attempts[0]; {
	case first.Class != remote.OK:
		return res, Client{}, fmt.Sprintf("one was %s", first)
	case at < 0:
		return res, Client{}, fmt.Sprintf("%s answered", first.Name)
	case n == 1:
		return res, servers[at], ""
	}
	w.text, w.n, w.servers = "the others of "+servers[at].Name+" too", n-1, servers[at:at+1]
	res, _, wrong := s.attempt(c, t, w)
	return res, servers[at], wrong
}

// Clients are the pods as clients.
func Clients(pods ...*Pod) []Client {
	var out []Client
	for _, p := range pods {
		out = append(out, p.Client)
	}
	return out
}

// EightPods are both pods of each of the first nodes.
func (s *Spec) EightPods() []*Pod {
	var out []*Pod
	for _, n := range s.FirstNodes() {
		out = append(out, n.A, n.B)
	}
	return out
}

// ReadyAll are the pods as ready endpoints.
func ReadyAll(pods []*Pod) []Endpoint {
	var out []Endpoint
	for _, p := range pods {
		out = append(out, p.Ready())
	}
	return out
}

// knock waits a pace and makes single attempts, at that pace, until one comes to what
// is wanted or time is up. Were whole rounds made instead, each refused attempt of a
// client to its own node would leave a flow in connection tracking that is not
// translated (SYN_SENT, 120 s), and later attempts from the same port would find it.
func (s *Spec) knock(c Client, t Target, w Want) {
	for {
		if err := kubewait.Pause(s.ctx, s.pace()); err != nil {
			s.Inconclusive("interrupted: %v", err)
		}
		if w.refusal || time.Since(s.at) > s.limit() {
			return // of a refusal: ICMP errors are few, and a knock would take the one that the round needs
		}
		if res, _, _ := s.attempt(c, t, Want{n: 1, class: w.class, timeout: w.timeout}); w.allows(res.Attempts[0]) {
			return
		}
	}
}

// allows says whether one attempt is among what is wanted.
func (w Want) allows(r remote.Result) bool {
	return w.class(r) && (r.Class != remote.OK || w.servers == nil || slices.ContainsFunc(w.servers, func(c Client) bool { return c.Name == r.Name }))
}

// pace is also how precisely delays are measured: to 20 ms, or a tenth.
func (s *Spec) pace() time.Duration { return max(20*time.Millisecond, time.Since(s.at)/10) }
