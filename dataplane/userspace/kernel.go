package userspace

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	lib "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// delta is what is to be written to the sets in one transaction.
type delta struct {
	add, del map[Element]bool
	first    map[string]bool // owners that go before others where not all go at once
}

func newDelta() *delta { return &delta{add: map[Element]bool{}, del: map[Element]bool{}} }

// replace takes elements out and puts others in; what is in both stays.
func (d *delta) replace(old, new []Element) {
	for _, e := range old {
		if d.add[e] {
			delete(d.add, e)
		} else {
			d.del[e] = true
		}
	}
	for _, e := range new {
		if d.del[e] {
			delete(d.del, e)
		} else {
			d.add[e] = true
		}
	}
}

func (d *delta) size() int { return len(d.add) + len(d.del) }

// socketBuffer has room for the largest batch and its answers.
const socketBuffer = 4 << 20

// transact makes one transaction of what fill asks for. All are made by one socket,
// so that Watch knows them by its port number; after an error, of which there may
// be more to read, the next is made by another.
func (t *Target) transact(fill func(*lib.Conn) error) (err error) {
	if t.writer == nil {
		if t.writer, err = t.connect(); err != nil {
			return fmt.Errorf("open netfilter socket: %w", err)
		}
	}
	defer func() {
		if err != nil {
			t.disconnect()
		}
	}()
	if err := fill(t.writer); err != nil {
		return err
	}
	return t.writer.Flush()
}

func (t *Target) connect() (*lib.Conn, error) {
	return lib.New(lib.WithNetNSFd(t.cfg.NetNS), lib.AsLasting(), lib.WithSockOptions(func(c *netlink.Conn) error {
		port, err := portOf(c)
		t.port.Store(port)
		return errors.Join(err, c.SetWriteBuffer(socketBuffer), c.SetReadBuffer(socketBuffer))
	}))
}

func (t *Target) disconnect() {
	if t.writer != nil {
		_ = t.writer.CloseLasting()
		t.writer = nil
	}
}

// portOf is the number by which the kernel names a netlink socket.
func portOf(c *netlink.Conn) (port uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var at unix.Sockaddr
		if at, failed = unix.Getsockname(int(fd)); failed == nil {
			port = at.(*unix.SockaddrNetlink).Pid
		}
	})
	return port, errors.Join(err, failed)
}

// perWrite is the number of elements at which a large change is split.
const perWrite = 2000

// writeAll writes a delta and, if asked for, the constant part first.
func (t *Target) writeAll(d *delta, constant, replace bool) error {
	return split(d, t.perWrite, func(part *delta) error {
		err := t.write(part, constant, replace)
		constant, replace = false, false
		return err
	})
}

// split makes several transactions of a large delta, at least one of any: what all
// frontends share comes in the first, and a frontend changes as a whole.
func split(d *delta, perWrite int, write func(*delta) error) error {
	if d.size() <= perWrite {
		return write(d)
	}
	groups := map[string]*delta{}
	group := func(e Element) *delta {
		if groups[e.owner()] == nil {
			groups[e.owner()] = newDelta()
		}
		return groups[e.owner()]
	}
	for e := range d.add {
		group(e).add[e] = true
	}
	for e := range d.del {
		group(e).del[e] = true
	}
	next := newDelta()
	turn := func(owner string) int { // what all share goes first of all
		switch {
		case owner == "":
			return 0
		case d.first[owner]:
			return 1
		}
		return 2
	}
	for _, owner := range slices.SortedFunc(maps.Keys(groups), func(a, b string) int { return cmp.Or(turn(a)-turn(b), cmp.Compare(a, b)) }) {
		maps.Copy(next.add, groups[owner].add)
		maps.Copy(next.del, groups[owner].del)
		if next.size() >= perWrite {
			if err := write(next); err != nil {
				return err
			}
			next = newDelta()
		}
	}
	return write(next)
}

// owner groups the elements of one frontend; what all share comes first.
func (e Element) owner() string {
	f := familyOf(e.v6)
	switch e.set {
	case setServiceCIDRs, setNodeAddrs, setLocalPods:
		return ""
	case setSources:
		return f.text + e.key[:len(e.key)-int(f.addrLen)]
	}
	return f.text + e.key
}

// write makes one transaction of a delta and, if asked for, the constant part.
func (t *Target) write(d *delta, constant, replace bool) error {
	maps.DeleteFunc(d.add, func(e Element, _ bool) bool { return !t.serves(e.v6) })
	if !constant && d.size() == 0 {
		return nil
	}
	if err := t.mayFail(); err != nil {
		return err
	}
	err := t.transact(func(conn *lib.Conn) error {
		if constant {
			for _, f := range t.families {
				at := t.proxy.ports(f)
				at.hold = t.hold
				addConstant(conn, f, at, replace)
			}
		}
		return errors.Join(elements(d.del, conn.SetDeleteElements), elements(d.add, conn.SetAddElements))
	})
	if err != nil {
		return err
	}
	return t.mayFail()
}

func (t *Target) mayFail() error {
	if t.cfg.Fault == nil {
		return nil
	}
	return t.cfg.Fault()
}

// addConstant writes what does not depend on any Service. The chains are emptied
// and filled in one transaction: no packet sees them in between.
func addConstant(conn *lib.Conn, f family, at ports, replace bool) {
	table := conn.AddTable(f.table())
	if replace {
		conn.DelTable(table)
		conn.AddTable(table)
	}
	for id := range setCount {
		_ = conn.AddSet(f.set(id), nil) // the errors are those of anonymous sets
	}
	for _, c := range f.chains(at) {
		to := &lib.Chain{Table: table, Name: c.name}
		if c.hook != nil {
			to.Hooknum, to.Priority, to.Type = c.hook, &c.priority, c.kind
		}
		conn.AddChain(to)
		conn.FlushChain(to)
	}
	for _, c := range f.chains(at) {
		for _, r := range c.rules {
			conn.AddRule(&lib.Rule{Table: table, Chain: &lib.Chain{Table: table, Name: c.name}, Exprs: r})
		}
	}
}

// perMessage bounds the elements of one message: an attribute's length has 16 bits.
const perMessage = 300

func elements(all map[Element]bool, send func(*lib.Set, []lib.SetElement) error) error {
	sorted := slices.SortedFunc(maps.Keys(all), Element.compare)
	for len(sorted) > 0 {
		first := sorted[0]
		n := 1
		for n < len(sorted) && n < perMessage && sorted[n].v6 == first.v6 && sorted[n].set == first.set {
			n++
		}
		var part []lib.SetElement
		for _, e := range sorted[:n] {
			part = append(part, lib.SetElement{Key: []byte(e.key), KeyEnd: []byte(e.to), IntervalEnd: e.past})
		}
		if err := send(familyOf(first.v6).set(first.set), part); err != nil {
			return fmt.Errorf("encode elements: %w", err)
		}
		sorted = sorted[n:]
	}
	return nil
}

// missing names what the kernel lacks of what the rules need, nil if it has all.
// It is asked after the rules were refused.
func (t *Target) missing() error {
	var out error
	need := []struct {
		name string
		uses []expr.Any
	}{
		{"tproxy (CONFIG_NFT_TPROXY)", ipv4().tproxy(1)},
		{"socket (CONFIG_NFT_SOCKET)", ipv4().ownSocket()},
		{"ct mark (CONFIG_NFT_CT, CONFIG_NF_CONNTRACK_MARK)", ctMarkSet(markToProxy)},
		{"reject (CONFIG_NFT_REJECT)", is(&expr.Reject{Type: unix.NFT_REJECT_TCP_RST})},
	}
	for _, n := range need {
		err := t.transact(func(conn *lib.Conn) error {
			table := conn.AddTable(&lib.Table{Family: lib.TableFamilyIPv4, Name: TableName + "-probe"})
			c := conn.AddChain(&lib.Chain{
				Table: table, Name: "probe", Type: lib.ChainTypeFilter, Hooknum: lib.ChainHookPrerouting, Priority: lib.ChainPriorityMangle,
			})
			conn.AddRule(&lib.Rule{Table: table, Chain: c, Exprs: n.uses})
			conn.DelTable(table)
			return nil
		})
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			out = errors.Join(out, fmt.Errorf("the kernel lacks the nftables expression %s: %w", n.name, errors.ErrUnsupported))
		}
	}
	return out
}
