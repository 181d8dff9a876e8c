package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"

	lib "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// state is what the kernel holds of ours.
type state struct {
	tables   []family
	elements map[elementID]string
}

// dumpTries bounds the dumps that are begun anew because somebody wrote to
// nftables meanwhile. The caller tries again later.
const dumpTries = 5

// dump reads the tables back. Tables that are not there are an empty state. A
// dump takes many messages, and a transaction of anybody in between (the kernel
// marks it NLM_F_DUMP_INTR, which the library does not show) may make it miss
// elements: the kernel's generation tells, and the dump is made again.
func dump(netns int) (*state, error) {
	conn, err := dial(netns)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return steady(func() (uint32, error) { return generation(conn) }, func() (*state, error) { return dumpOnce(netns) })
}

// steady repeats a dump until no generation began while it was made.
func steady(generation func() (uint32, error), dump func() (*state, error)) (*state, error) {
	before, err := generation()
	if err != nil {
		return nil, err
	}
	for range dumpTries {
		out, failed := dump()
		after, err := generation()
		if err != nil {
			return nil, err
		}
		if after == before {
			return out, failed
		}
		before = after
	}
	return nil, fmt.Errorf("nftables changed during each of %d dumps", dumpTries)
}

// generation counts the transactions of the namespace.
func generation(conn *netlink.Conn) (uint32, error) {
	replies, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN), Flags: netlink.Request},
		Data:   nfgen(0, 0),
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
	}
	for _, m := range replies {
		if len(m.Data) < 4 {
			continue
		}
		d, err := netlink.NewAttributeDecoder(m.Data[4:])
		if err != nil {
			return 0, fmt.Errorf("read the generation of nftables: %w", err)
		}
		d.ByteOrder = binary.BigEndian
		for d.Next() {
			if d.Type() == unix.NFTA_GEN_ID {
				return d.Uint32(), nil
			}
		}
	}
	return 0, errors.New("ask for the generation of nftables: no answer")
}

func dumpOnce(netns int) (*state, error) {
	out := &state{elements: map[elementID]string{}}
	conn, err := lib.New(lib.WithNetNSFd(netns), lib.WithSockOptions(widen))
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	for _, f := range families() {
		tables, err := conn.ListTablesOfFamily(lib.TableFamily(f.proto))
		if err != nil {
			return nil, fmt.Errorf("list tables of family %s: %w", f.text, err)
		}
		for _, table := range tables {
			if table.Name != TableName {
				continue
			}
			out.tables = append(out.tables, f)
			if err := out.read(conn, f, table); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// widen lets the kernel answer in parts of 32 KiB. It sizes them by the largest
// buffer a socket was ever read with, the library reads with one page, and to
// find where the next part begins the kernel walks the set from its start: small
// parts make reading a large set quadratic (3 s for 100 000 elements).
func widen(conn *netlink.Conn) error {
	noop := netlink.Message{Header: netlink.Header{Type: netlink.Noop, Flags: netlink.Request | netlink.Acknowledge}}
	if _, err := conn.Send(noop); err != nil {
		return fmt.Errorf("send to netfilter socket: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("use netfilter socket: %w", err)
	}
	buf := make([]byte, 32<<10)
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		_, _, failed = unix.Recvfrom(int(fd), buf, 0)
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("read from netfilter socket: %w", err)
	}
	return nil
}

// read reads the sets that are known here; what a table holds beyond them is
// another version's and stays out of the way.
func (s *state) read(conn *lib.Conn, f family, table *lib.Table) error {
	sets, err := conn.GetSets(table)
	if err != nil {
		return fmt.Errorf("list sets of table %s %s: %w", f.text, TableName, err)
	}
	byName := map[string]*lib.Set{}
	for _, set := range sets {
		byName[set.Name] = set
	}
	for id, spec := range f.specs() {
		set, ok := byName[spec.name]
		if !ok || setID(id) == setClasses {
			continue
		}
		elems, err := conn.GetSetElements(set)
		if err != nil {
			return fmt.Errorf("list elements of set %s %s %s: %w", f.text, TableName, spec.name, err)
		}
		for _, e := range elems {
			at := elementID{v6: f.v6, set: setID(id), key: string(e.Key), end: e.IntervalEnd}
			s.elements[at] = string(e.Val)
		}
	}
	return nil
}

// frontend is what the kernel has for a frontend, as far as the order of its
// slots is concerned.
func (s *state) frontend(f plan.Frontend, elements map[elementID]string) plan.Frontend {
	out := plan.Frontend{Key: f.Key}
	out.Outside.Endpoints = slotsOf(f.Key, outsideView(f.Key), elements)
	if f.Inside != nil {
		out.Inside = &plan.Route{Endpoints: slotsOf(f.Key, viewInside, elements)}
	}
	return out
}

func slotsOf(k plan.Key, v view, elements map[elementID]string) []plan.Endpoint {
	var out []plan.Endpoint
	front := frontendKey(k)
	for i := 0; ; i++ {
		val, ok := elements[elementID{v6: k.IPv6, set: v.slots(), key: slotKey(front, i)}]
		if !ok {
			return out
		}
		out = append(out, parseEndpoint(val))
	}
}

// Dump is every element in the kernel as sorted text, in the form of Render.
func Dump(netns int) (string, error) {
	s, err := dump(netns)
	if err != nil {
		return "", err
	}
	elems := make([]Element, 0, len(s.elements))
	for id, val := range s.elements {
		elems = append(elems, Element{id, val})
	}
	return text(elems), nil
}
