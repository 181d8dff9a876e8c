package userspace

import (
	"encoding/binary"
	"errors"
	"fmt"

	lib "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// state is what the kernel holds of ours.
type state struct {
	tables   []family
	elements map[Element]bool
}

// dumpTries bounds the dumps that are begun anew because somebody wrote to
// nftables meanwhile. The caller tries again later.
const dumpTries = 5

// read reads the tables back. A transaction of anybody between the messages of a
// dump may make it miss something: the kernel's generation tells.
func read(netns int) (*state, error) {
	conn, err := lib.New(lib.WithNetNSFd(netns), lib.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	defer conn.CloseLasting()
	before, err := generation(netns)
	if err != nil {
		return nil, err
	}
	for range dumpTries {
		out, failed := readOnce(conn)
		after, err := generation(netns)
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

// generation counts the transactions of a namespace.
func generation(netns int) (uint32, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return 0, fmt.Errorf("open netfilter socket: %w", err)
	}
	defer conn.Close()
	replies, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   make([]byte, nfgenSize),
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
	}
	for _, m := range replies {
		d, err := netlink.NewAttributeDecoder(m.Data[min(nfgenSize, len(m.Data)):])
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

// nfgenSize is that of struct nfgenmsg, which begins every message.
const nfgenSize = 4

// readOnce makes one dump. Tables that are not there are an empty state, and sets
// that are not known here belong to another version and stay out of the way.
func readOnce(conn *lib.Conn) (*state, error) {
	out := &state{elements: map[Element]bool{}}
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
			if err := out.readTable(conn, f, table); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (s *state) readTable(conn *lib.Conn, f family, table *lib.Table) error {
	sets, err := conn.GetSets(table)
	if err != nil {
		return fmt.Errorf("list sets of table %s %s: %w", f.text, TableName, err)
	}
	ids := map[string]setID{}
	for id, spec := range f.specs() {
		ids[spec.name] = setID(id)
	}
	for _, set := range sets {
		id, ours := ids[set.Name]
		if !ours {
			continue
		}
		elems, err := conn.GetSetElements(set)
		if err != nil {
			return fmt.Errorf("list elements of set %s %s %s: %w", f.text, TableName, set.Name, err)
		}
		for _, e := range elems {
			s.elements[Element{v6: f.v6, set: id, key: string(e.Key), to: string(e.KeyEnd), past: e.IntervalEnd}] = true
		}
	}
	return nil
}

// Dump is every element in the kernel as sorted text, in the form of Render.
func Dump(netns int) (string, error) {
	s, err := read(netns)
	if err != nil {
		return "", err
	}
	var elems []Element
	for e := range s.elements {
		elems = append(elems, e)
	}
	return text(elems), nil
}
