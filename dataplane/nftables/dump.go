package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/commits"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// state is what the kernel holds of ours.
type state struct {
	tables   map[bool]bool // by IPv6: there, and not dormant
	owners   map[bool]uint32
	sets     map[setAt]setShape
	chains   map[chainAt]chainState
	elements elements

	sources map[elementID][]Element // by frontend, made when first asked for
}

type setAt struct {
	v6  bool
	set setID
}

type chainAt struct {
	v6   bool
	name string
}

// chainState is a chain as far as it can differ from what is wanted.
type chainState struct {
	hook   hook // zero if it has none
	policy uint32
	marks  string // of its rules, one after the other
}

func newState() *state {
	return &state{tables: map[bool]bool{}, owners: map[bool]uint32{}, sets: map[setAt]setShape{}, chains: map[chainAt]chainState{}, elements: elements{}}
}

// dump reads the tables back. Tables that are not there are an empty state.
func dump(netns int) (*state, error) {
	var conns [readers]*conn
	for i := range conns {
		c, err := dial(netns, 0)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		conns[i] = c
	}
	return commits.Steady(netns, TableName, func() (*state, error) { return readBack(conns, newBoth()) })
}

// readers is how many sets are read at a time: most of it is the kernel's work, of one processor for each.
const readers = 2

// listTries bounds how often a list of everybody's objects is asked for anew: it is short.
const listTries = 100

func again(list func() error) (err error) {
	for range listTries {
		if err = list(); !errors.Is(err, commits.ErrInterrupted) {
			break
		}
	}
	return err
}

func readBack(conns [readers]*conn, fam *both) (*state, error) {
	out, c := newState(), conns[0]
	for _, f := range fam {
		there := false
		err := again(func() error {
			return c.ask(f, unix.NFT_MSG_GETTABLE, netlink.Dump, nil, func(_ uint16, attrs string) {
				if name(attr(attrs, unix.NFTA_TABLE_NAME)) == TableName {
					there = true
					out.tables[f.v6] = be32(attr(attrs, unix.NFTA_TABLE_FLAGS))&tableDormant == 0
					out.owners[f.v6] = be32(attr(attrs, tableOwner))
				}
			})
		})
		if err != nil {
			return nil, fmt.Errorf("list tables of family %s: %w", f.text, err)
		}
		if !there {
			continue
		}
		if err := out.read(conns, f); err != nil {
			return nil, fmt.Errorf("read table %s %s: %w", f.text, TableName, err)
		}
	}
	return out, nil
}

// read reads one table. Rules, sets and elements are asked for by the table: that the kernel
// calls such an answer interrupted says no more than that somebody committed something. The
// list of chains is of all tables, and goes on by a count of them.
func (s *state) read(conns [readers]*conn, f family) error {
	c := conns[0]
	if err := again(func() error { return s.readChains(c, f) }); err != nil {
		return fmt.Errorf("chains: %w", err)
	}
	if err := s.readRules(c, f); err != nil {
		return err
	}
	if err := s.readSets(c, f); err != nil {
		return err
	}
	var g errgroup.Group
	next := make(chan setID, setCount)
	for id := range setCount {
		if s.sets[setAt{f.v6, id}] != f.sets[id].shape() || id == setAffinity {
			continue // not there, or to be replaced
		}
		s.elements[setAt{f.v6, id}] = ofSet{}
		next <- id
	}
	close(next)
	for _, c := range conns {
		g.Go(func() error {
			for id := range next {
				if err := s.elements[setAt{f.v6, id}].read(c, f, id); err != nil {
					for range next { // it is for nothing
					}
					return fmt.Errorf("elements of set %s: %w", f.sets[id].name, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (s *state) readChains(c *conn, f family) error {
	err := c.ask(f, unix.NFT_MSG_GETCHAIN, netlink.Dump, nil, func(_ uint16, a string) {
		if name(attr(a, unix.NFTA_CHAIN_TABLE)) != TableName {
			return
		}
		st := chainState{policy: be32(attr(a, unix.NFTA_CHAIN_POLICY))}
		if h := attr(a, unix.NFTA_CHAIN_HOOK); h != "" {
			st.hook = parseHook(name(attr(a, unix.NFTA_CHAIN_TYPE)), h)
		}
		s.chains[chainAt{f.v6, name(attr(a, unix.NFTA_CHAIN_NAME))}] = st
	})
	return err
}

func (s *state) readRules(c *conn, f family) error {
	var req buffer
	req.str(unix.NFTA_RULE_TABLE, TableName)
	err := c.ask(f, unix.NFT_MSG_GETRULE, netlink.Dump, req.bytes, func(_ uint16, a string) {
		if name(attr(a, unix.NFTA_RULE_TABLE)) != TableName {
			return
		}
		at := chainAt{f.v6, name(attr(a, unix.NFTA_RULE_CHAIN))}
		st := s.chains[at]
		st.marks += attr(a, unix.NFTA_RULE_USERDATA) + "|"
		s.chains[at] = st
	})
	if err != nil && !errors.Is(err, commits.ErrInterrupted) {
		return fmt.Errorf("rules: %w", err)
	}
	return nil
}

// readSets reads the sets that are known here; what a table holds beyond them is
// another version's and stays out of the way.
func (s *state) readSets(c *conn, f family) error {
	var req buffer
	req.str(unix.NFTA_SET_TABLE, TableName)
	err := c.ask(f, unix.NFT_MSG_GETSET, netlink.Dump, req.bytes, func(_ uint16, a string) {
		called := name(attr(a, unix.NFTA_SET_NAME))
		id := slices.IndexFunc(f.sets[:], func(spec setSpec) bool { return spec.name == called })
		if id < 0 || name(attr(a, unix.NFTA_SET_TABLE)) != TableName {
			return
		}
		shape := setShape{
			flags: be32(attr(a, unix.NFTA_SET_FLAGS)), keyType: be32(attr(a, unix.NFTA_SET_KEY_TYPE)), keyLen: be32(attr(a, unix.NFTA_SET_KEY_LEN)),
			dataType: be32(attr(a, unix.NFTA_SET_DATA_TYPE)), dataLen: be32(attr(a, unix.NFTA_SET_DATA_LEN)),
		}
		if shape.dataType == unix.NFT_DATA_VERDICT {
			shape.dataLen = 0 // the kernel's own business
		}
		s.sets[setAt{f.v6, setID(id)}] = shape
	})
	if err != nil && !errors.Is(err, commits.ErrInterrupted) {
		return fmt.Errorf("sets: %w", err)
	}
	return nil
}

// read reads a set. The kernel goes on with a dump by the number of
// elements it gave, so when it grows or shrinks the set's hash table meanwhile,
// which it does for some time after a large change and which is no generation,
// some elements come twice and as many may be left out: then it is commits.ErrInterrupted.
func (e ofSet) read(c *conn, f family, id setID) error {
	before, got := len(e), 0
	err := c.ask(f, unix.NFT_MSG_GETSETELEM, netlink.Dump, setRequest(f, id).bytes, func(_ uint16, a string) {
		attrs(attr(a, unix.NFTA_SET_ELEM_LIST_ELEMENTS), func(_ uint16, item string) {
			el := parseElement(f, id, item)
			e[el.id.in()] = el.val
			got++
		})
	})
	if err != nil && !errors.Is(err, commits.ErrInterrupted) {
		return err
	}
	if got != len(e)-before {
		return commits.ErrInterrupted
	}
	return nil
}

func setRequest(f family, id setID) *buffer {
	b := &buffer{}
	b.str(unix.NFTA_SET_ELEM_LIST_TABLE, TableName)
	b.str(unix.NFTA_SET_ELEM_LIST_SET, f.sets[id].name)
	return b
}

func parseElement(f family, id setID, item string) Element {
	e := Element{id: elementID{v6: f.v6, set: id}}
	keyEnd := ""
	attrs(item, func(typ uint16, data string) {
		switch typ {
		case unix.NFTA_SET_ELEM_KEY:
			e.id.key = attr(data, unix.NFTA_DATA_VALUE)
		case attrKeyEnd:
			keyEnd = attr(data, unix.NFTA_DATA_VALUE)
		case unix.NFTA_SET_ELEM_FLAGS:
			e.id.end = be32(data)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_DATA:
			if v := attr(data, unix.NFTA_DATA_VERDICT); v == "" {
				e.val = attr(data, unix.NFTA_DATA_VALUE)
			} else if be32(attr(v, unix.NFTA_VERDICT_CODE)) == f.sets[id].verdict() {
				e.val = name(attr(v, unix.NFTA_VERDICT_CHAIN))
			}
		}
	})
	if f.sets[id].ranges {
		e.id.key += keyEnd
	}
	return e
}

// frontend is what the kernel has for a frontend, as far as the order of its
// slots is concerned.
func (s *state) frontend(f plan.Frontend) plan.Frontend {
	out := plan.Frontend{Key: f.Key}
	if f.Key.IsWildcard() {
		return out
	}
	at := kernelFrontend{Frontend: f}
	out.Outside.Endpoints = s.slots(f.Key, at.view(false), len(f.Outside.Endpoints))
	if f.Inside != nil {
		out.Inside = &plan.Route{Endpoints: s.slots(f.Key, at.view(true), len(f.Inside.Endpoints))}
	}
	return out
}

// slots are the first endpoints of a view, at most n, up to a gap.
func (s *state) slots(k plan.Key, v view, n int) []plan.Endpoint {
	front := append([]byte(frontendKey(k)), 0, 0, 0, 0)
	set := v.slots(slotPart(frontendKey(k)))
	out := make([]plan.Endpoint, 0, n)
	for i := range n {
		binary.NativeEndian.PutUint32(front[len(front)-4:], uint32(i))
		val, _ := s.elements.get(elementID{v6: k.IPv6, set: set, key: string(front)})
		e, ok := parseEndpoint(val)
		if !ok {
			break
		}
		out = append(out, e)
	}
	return out
}

// Dump is every element in the kernel as sorted text, in the form of Render. The
// rules, and the clients that are remembered, are not part of it.
func Dump(netns int) (string, error) {
	s, err := dump(netns)
	if err != nil {
		return "", err
	}
	return text(slices.Collect(s.elements.of(setID.isPlan))), nil
}
