package userspace

import (
	"errors"
	"fmt"

	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/commits"
)

// state is what the kernel holds of ours.
type state struct {
	tables   []family
	elements map[Element]bool
}

// read reads the tables back.
func read(netns int) (*state, error) {
	conn, err := lib.New(lib.WithNetNSFd(netns), lib.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	defer conn.CloseLasting()
	return commits.Steady(netns, TableName, func() (*state, error) { return readOnce(conn) })
}

// readOnce makes one dump. Tables that are not there are an empty state, and sets
// that are not known here belong to another version and stay out of the way.
func readOnce(conn *lib.Conn) (*state, error) {
	out := &state{elements: map[Element]bool{}}
	for _, f := range families() {
		// By name: a list of all may lack it when others make or delete theirs meanwhile.
		table, err := conn.ListTableOfFamily(TableName, lib.TableFamily(f.proto))
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for table %s %s: %w", f.text, TableName, err)
		}
		out.tables = append(out.tables, f)
		if err := out.readTable(conn, f, table); err != nil {
			return nil, err
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
