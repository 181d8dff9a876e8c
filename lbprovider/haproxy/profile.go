package haproxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Profile is the behaviour of the load balancer that its owner chooses, not
// the Service. It is printed with every result.
type Profile struct {
	Name         string
	Inter        time.Duration // between checks, counted from the end of the last one
	Fall, Rise   int
	CheckTimeout time.Duration // 0: HAProxy's default (the check has Inter in all)
	Connect      time.Duration
	Idle         time.Duration // client and server inactivity
	Retries      int           // of a failed connect, on the same server; -1: HAProxy's default, 3
	// Drain is how long the connections of a node that was removed may live on (the
	// deregistration delay of a target group: 300 s by default on AWS).
	Drain time.Duration
}

// Profiles are the profiles by name.
//
// l4-strict hides nothing: no retry, no redispatch. l4-fast is the same with
// checks every second, for measurements that are to be short. seed is the set-up of the
// write-ups that the experiments E1 and E2 reproduce: HAProxy's defaults where
// they say nothing.
func Profiles() map[string]Profile {
	const drain = 5 * time.Minute
	return map[string]Profile{
		"l4-fast": {Name: "l4-fast", Inter: time.Second, Fall: 3, Rise: 1, CheckTimeout: time.Second,
			Connect: 5 * time.Second, Idle: time.Hour, Retries: 0, Drain: drain},
		"l4-strict": {Name: "l4-strict", Inter: 2 * time.Second, Fall: 3, Rise: 1, CheckTimeout: 2 * time.Second,
			Connect: 5 * time.Second, Idle: time.Hour, Retries: 0, Drain: drain},
		"seed": {Name: "seed", Inter: 5 * time.Second, Fall: 3, Rise: 1,
			Connect: 5 * time.Second, Idle: 50 * time.Second, Retries: -1, Drain: drain},
	}
}

// ProfileNames are the names of Profiles, sorted, as help and errors list them.
func ProfileNames() string { return strings.Join(slices.Sorted(maps.Keys(Profiles())), ", ") }

// FirstRound is an upper bound for the time until every server had its first
// check result: the phase, the connect and the answer.
func (p Profile) FirstRound() time.Duration {
	return 2*p.Inter + max(p.CheckTimeout, p.Inter)
}

func (p Profile) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: check inter %s fall %d rise %d", p.Name, p.Inter, p.Fall, p.Rise)
	if p.CheckTimeout > 0 {
		fmt.Fprintf(&b, " timeout %s", p.CheckTimeout)
	}
	retries := "default (3)"
	if p.Retries >= 0 {
		retries = fmt.Sprint(p.Retries)
	}
	fmt.Fprintf(&b, ", connect %s, retries %s, no redispatch, roundrobin, drain %s, ipMode Proxy", p.Connect, retries, p.Drain)
	return b.String()
}
