package ebpf

import (
	"fmt"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// odd are the facts that no plan leads to: what packets depend on and is not as it should be, and
// what no frontend leads to. The latter begins with "left over", and is there for a moment after a
// change.
func (s *state) odd() []string {
	o := oddities{s: s, owners: map[uint32]string{}}
	for k, v := range s.fronts {
		key := fromKey(k)
		for i, r := range v.Routes {
			o.list(fmt.Sprintf("%s route %d", key, i), r)
		}
		o.owns(key.String()+" draining", v.Draining)
		o.owns(key.String()+" sources", v.Sources)
		for i := range s.slots[v.Draining] {
			o.add("%s draining has slot %d", key, i)
		}
	}
	for number, slots := range s.slots {
		o.nobodys(number, len(slots), "slots")
	}
	for number, members := range s.members {
		o.nobodys(number, len(members), "members")
	}
	for number, sources := range s.sources {
		o.nobodys(number, len(sources), "sources")
	}
	o.config()
	return o.out
}

type oddities struct {
	s      *state
	owners map[uint32]string
	out    []string
}

func (o *oddities) add(format string, args ...any) {
	o.out = append(o.out, fmt.Sprintf(format, args...))
}

func (o *oddities) owns(who string, number uint32) {
	if other, had := o.owners[number]; had {
		o.add("%s and %s have one number", min(who, other), max(who, other))
	}
	if number != 0 {
		o.owners[number] = who
	}
}

func (o *oddities) nobodys(number uint32, n int, what string) {
	if _, is := o.owners[number]; !is {
		o.add("left over: %d %s under number %d", n, what, number)
	}
}

// list compares slots and members.
func (o *oddities) list(who string, r plumbRoute) {
	o.owns(who, r.List)
	slots, members, has := o.s.slots[r.List], o.s.members[r.List], map[place]plan.Endpoint{}
	for i := range r.N {
		e, ok := slots[i]
		if !ok {
			o.add("%s has no slot %d", who, i)
			continue
		}
		at := toPlace(e)
		if _, twice := has[at]; twice {
			o.add("%s has two slots to %s", who, e)
		}
		has[at] = e
		if flags, is := members[at]; !is || flags != uint32(toFlags(e)) {
			o.add("%s to %s is no such member", who, e)
		}
	}
	if o.owners[r.List] != who {
		return
	}
	for i := range slots {
		if i >= r.N {
			o.add("left over: slot %d of %s", i, who)
		}
	}
	for at, flags := range members {
		if _, is := has[at]; !is {
			o.add("%s has member %s without a slot", who, fromPlace(at, uint16(flags)))
		}
	}
}

func (o *oddities) config() {
	c, services := o.s.config, uint32(0)
	for _, flags := range o.s.networks {
		if flags&networkServices != 0 {
			services = configServiceCIDRs
		}
	}
	if c.Flags != services {
		o.add("config has flags %d, want %d", c.Flags, services)
	}
	if c.SnatLow == 0 || c.SnatLow > c.SnatHigh {
		o.add("config has ports %d to %d for masqueraded connections", c.SnatLow, c.SnatHigh)
	}
	for f, a := range c.Masquerade {
		node, is := false, false
		for addr, class := range o.s.classes {
			if class&addressNode != 0 && family(addr) == f {
				node, is = true, is || toAddr(addr) == a
			}
		}
		if node && !is {
			o.add("config has masquerade address %s, which is none of the node's", fromAddr(a))
		}
	}
}
