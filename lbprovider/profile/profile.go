// Package profile has the behaviour of the load balancer that its owner chooses, not the
// Service: how it checks nodes, how patient it is, and what becomes of connections. It is
// printed with every result.
package profile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Profile is one of Names, or one of them with values of its own.
type Profile struct {
	Name       string        // as Parse reads it
	Interval   time.Duration // between checks, counted from the end of the last one
	Fast       time.Duration // the same of a server on its way DOWN or UP; 0: Interval
	Down       time.Duration // the same of a server that is DOWN; 0: Interval
	Fall, Rise int           // how many checks turn a server DOWN, and UP
	Timeout    time.Duration // of a check; 0: HAProxy's default (the check has Interval in all)
	Connect    time.Duration
	Idle       time.Duration // client and server inactivity
	Retries    int           // of a failed connect, on the same server; Default: HAProxy's, 3
	// Drain is how long the connections of a node that was removed may live on (the
	// deregistration delay of a target group: 300 s by default on AWS).
	Drain time.Duration
}

// Default stands for what HAProxy does when it is not told.
const Default = -1

// named are the profiles by name.
//
// l4-strict hides nothing: no retry, no redispatch. l4-fast is the same with
// checks every second, for measurements that are to be short. seed is the set-up of the
// write-ups that the experiments E1 and E2 reproduce: HAProxy's defaults where
// they say nothing.
func named() map[string]Profile {
	const drain = 5 * time.Minute
	return map[string]Profile{
		"l4-fast": {Name: "l4-fast", Interval: time.Second, Fall: 3, Rise: 1, Timeout: time.Second,
			Connect: 5 * time.Second, Idle: time.Hour, Retries: 0, Drain: drain},
		"l4-strict": {Name: "l4-strict", Interval: 2 * time.Second, Fall: 3, Rise: 1, Timeout: 2 * time.Second,
			Connect: 5 * time.Second, Idle: time.Hour, Retries: 0, Drain: drain},
		"seed": {Name: "seed", Interval: 5 * time.Second, Fall: 3, Rise: 1,
			Connect: 5 * time.Second, Idle: 50 * time.Second, Retries: Default, Drain: drain},
	}
}

// Names are the names of profiles, sorted, as help and errors list them.
func Names() string { return strings.Join(List(), ", ") }

// List is the same as a list.
func List() []string { return slices.Sorted(maps.Keys(named())) }

// value is what may be changed of a profile.
type value struct {
	name     string
	duration func(*Profile) *time.Duration // or
	number   func(*Profile) *int
	least    time.Duration // or so many
}

// values are all there are, in the order in which a profile's name has them.
func values() []value {
	return []value{
		{"interval", func(p *Profile) *time.Duration { return &p.Interval }, nil, 10 * time.Millisecond},
		{"fast", func(p *Profile) *time.Duration { return &p.Fast }, nil, 10 * time.Millisecond},
		{"down", func(p *Profile) *time.Duration { return &p.Down }, nil, 10 * time.Millisecond},
		{"fall", nil, func(p *Profile) *int { return &p.Fall }, 1},
		{"rise", nil, func(p *Profile) *int { return &p.Rise }, 1},
		{"timeout", func(p *Profile) *time.Duration { return &p.Timeout }, nil, 10 * time.Millisecond},
		{"connect", func(p *Profile) *time.Duration { return &p.Connect }, nil, 10 * time.Millisecond},
		{"idle", func(p *Profile) *time.Duration { return &p.Idle }, nil, time.Second},
		{"retries", nil, func(p *Profile) *int { return &p.Retries }, 0},
		{"drain", func(p *Profile) *time.Duration { return &p.Drain }, nil, 0},
	}
}

// Most of any value: beyond are slips of the pen.
const (
	mostNumber   = 1000
	mostDuration = 24 * time.Hour
)

// Usage says what Parse reads, for help and errors.
func Usage() string {
	var keys []string
	for _, v := range values() {
		keys = append(keys, v.name)
	}
	return Names() + "; with values of its own: l4-strict,interval=1s,fall=2 (" + strings.Join(keys, ", ") + ")"
}

// Parse reads a profile: a name, and values that are to differ, separated by commas.
func Parse(text string) (Profile, error) {
	name, rest, more := strings.Cut(text, ",")
	p, ok := named()[name]
	if !ok {
		return p, fmt.Errorf("unknown load balancer profile %q; known: %s", name, Usage())
	}
	given := map[string]string{}
	for more {
		var one string
		one, rest, more = strings.Cut(rest, ",")
		key, to, _ := strings.Cut(one, "=")
		i := slices.IndexFunc(values(), func(v value) bool { return v.name == key })
		if i < 0 {
			return p, fmt.Errorf("load balancer profile %q: there is no value %q; known: %s", text, key, Usage())
		}
		if _, twice := given[key]; twice {
			return p, fmt.Errorf("load balancer profile %q: %s is given twice", text, key)
		}
		said, err := values()[i].set(&p, to)
		if err != nil {
			return p, fmt.Errorf("load balancer profile %q: %s=%s: %w", text, key, to, err)
		}
		given[key] = said
	}
	for _, v := range values() {
		if said, ok := given[v.name]; ok {
			p.Name += "," + v.name + "=" + said
		}
	}
	return p, nil
}

// set sets one value, and returns it as it is written.
func (v value) set(p *Profile, text string) (said string, err error) {
	if v.number != nil {
		n, err := strconv.Atoi(text)
		if err != nil || n < int(v.least) || n > mostNumber {
			return "", fmt.Errorf("give a number from %d to %d", v.least, mostNumber)
		}
		*v.number(p) = n
		return strconv.Itoa(n), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < v.least || d > mostDuration || d%time.Millisecond != 0 {
		return "", fmt.Errorf("give a duration from %s to %s in whole milliseconds, such as 2s", v.least, mostDuration)
	}
	*v.duration(p) = d
	return d.String(), nil
}

// FirstRound is an upper bound for the time until every server, which begins DOWN, had its
// first check result: the phase, the connect and the answer.
func (p Profile) FirstRound() time.Duration {
	return 2*max(p.Interval, p.Down) + max(p.Timeout, p.Interval)
}

// Risen is an upper bound for the time until a server whose checks succeed is UP.
func (p Profile) Risen() time.Duration {
	return p.FirstRound() + time.Duration(p.Rise-1)*max(p.Interval, p.Fast, p.Down)
}

// ConnectRetries are Retries, with HAProxy's default as it is.
func (p Profile) ConnectRetries() int {
	if p.Retries == Default {
		return 3
	}
	return p.Retries
}

func (p Profile) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: check inter %s", p.Name, p.Interval)
	if p.Fast > 0 {
		fmt.Fprintf(&b, " fastinter %s", p.Fast)
	}
	if p.Down > 0 {
		fmt.Fprintf(&b, " downinter %s", p.Down)
	}
	fmt.Fprintf(&b, " fall %d rise %d", p.Fall, p.Rise)
	if p.Timeout > 0 {
		fmt.Fprintf(&b, " timeout %s", p.Timeout)
	}
	retries := "default (3)"
	if p.Retries != Default {
		retries = fmt.Sprint(p.Retries)
	}
	fmt.Fprintf(&b, ", connect %s, retries %s, no redispatch, roundrobin, drain %s, ipMode Proxy", p.Connect, retries, p.Drain)
	return b.String()
}
