package userspace

import (
	"fmt"

	lib "github.com/google/nftables"
)

// Clean removes both tables, the routing rules and the routes, and nothing else;
// none there is no error. Connections of a process that still runs break.
func Clean(netns int) error {
	conn, err := lib.New(lib.WithNetNSFd(netns))
	if err != nil {
		return fmt.Errorf("clean nftables: open netfilter socket: %w", err)
	}
	present, err := read(netns)
	if err != nil {
		return fmt.Errorf("clean nftables: %w", err)
	}
	for _, f := range present.tables {
		conn.DelTable(f.table())
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("clean nftables: %w", err)
	}
	s, err := enter(netns)
	if err != nil {
		return fmt.Errorf("clean routing: %w", err)
	}
	defer s.Close()
	return s.do(func() error {
		for _, f := range families() {
			if err := removeRouting(f); err != nil {
				return fmt.Errorf("clean routing: %w", err)
			}
		}
		return nil
	})
}

// Left names what Clean would remove.
func Left(netns int) ([]string, error) {
	present, err := read(netns)
	if err != nil {
		return nil, fmt.Errorf("look for nftables: %w", err)
	}
	var out []string
	for _, f := range present.tables {
		out = append(out, "table "+f.text+" "+TableName)
	}
	s, err := enter(netns)
	if err != nil {
		return nil, fmt.Errorf("look for routing: %w", err)
	}
	defer s.Close()
	err = s.do(func() error {
		for _, f := range families() {
			rules, err := f.rules()
			if err != nil {
				return err
			}
			routes, err := routesOf(f)
			if err != nil {
				return err
			}
			if len(rules)+len(routes) > 0 {
				out = append(out, fmt.Sprintf("%s routing table %d", f.text, routeTable))
			}
		}
		return nil
	})
	return out, err
}
