package haproxy

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// proxyName is the name of a listener's proxy. It is made of numbers only;
// nothing from an object is in it.
func proxyName(l lbplan.Listener) string {
	return fmt.Sprintf("tcp-%d-%s", l.Port, l.Family)
}

// serverName is a node's name as HAProxy and its socket take it: letters,
// digits, '-' and '.' stand for themselves (a valid node name is unchanged),
// every other byte is "_" and two hex digits. NodeName undoes it.
func serverName(node string) string {
	var b strings.Builder
	for i := range len(node) {
		if c := node[i]; isPlain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// serverIDs numbers a listener's servers by their nodes. By its number a stick table
// knows a server and a consistent hash places it, so it has to outlive other nodes'
// leaving: it follows from the name alone. Of two nodes with one number (one pair in
// 2^31) the second by name takes the next that is free.
func serverIDs(l lbplan.Listener) map[string]int {
	nodes := make([]string, 0, len(l.Servers))
	for _, s := range l.Servers {
		nodes = append(nodes, s.Node)
	}
	slices.Sort(nodes)
	ids, taken := map[string]int{}, map[int]bool{}
	for _, n := range nodes {
		h := fnv.New32a()
		_, _ = h.Write([]byte(n))
		id := int(h.Sum32() >> 1)
		for id == 0 || taken[id] {
			id = (id + 1) % math.MaxInt32
		}
		ids[n], taken[id] = id, true
	}
	return ids
}

// nodeName is the node that a server name stands for. A name that serverName
// does not write (such as <NOSRV>) comes back as it is.
func nodeName(server string) string {
	var b strings.Builder
	for i := 0; i < len(server); i++ {
		if server[i] != '_' {
			b.WriteByte(server[i])
			continue
		}
		if i+3 > len(server) {
			return server
		}
		c, err := hex.DecodeString(server[i+1 : i+3])
		if err != nil {
			return server
		}
		b.Write(c)
		i += 2
	}
	return b.String()
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.'
}

// word writes a path as one word of the configuration (configuration.txt 2.2:
// \xHH stands for any byte).
func word(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; isPlain(c) || c == '/' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}
