package mutant

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/backend"
)

// packetMutations carry the first packets of a connection, and lose others.
func packetMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"large-segments-lost":        beside(largeLost(unix.IPPROTO_TCP)),
		"large-datagrams-lost":       beside(largeLost(unix.IPPROTO_UDP)),
		"half-closed-is-forgotten":   forgottenAfter("0", halfClosedTimeouts),
		"idle-tcp-flows-forgotten":   forgottenAfter("60", map[string]string{"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established": "432000"}),
		"udp-flows-forgotten-soon":   forgottenAfter("2", map[string]string{"/proc/sys/net/netfilter/nf_conntrack_udp_timeout": "30"}),
		"long-tcp-flows-lost":        beside(lost(longFlow()...)),
		"datagrams-refused-seldom":   beside(icmpLost(portUnreachable, nftables.ChainHookOutput, 24)),
		"datagrams-refused-by-half":  beside(icmpLost(portUnreachable, nftables.ChainHookOutput, 2)),
		"refusals-of-endpoints-lost": beside(icmpLost(portUnreachable, nftables.ChainHookForward, never, translated()...)),
		"too-big-lost":               beside(icmpLost(tooBig, nftables.ChainHookOutput, never, translated()...)),
	}
}

// beside has a table of its own beside the backend's while an agent runs.
func beside(rules func(*nftables.Conn, *nftables.Table)) func(*changes) {
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: "plumb-mutant"}
	return func(c *changes) {
		c.started = func(backend.Backend) error {
			conn, err := nftables.New()
			if err != nil {
				return fmt.Errorf("speak to nf_tables: %w", err)
			}
			conn.AddTable(table) // or there may be none to delete
			conn.DelTable(table)
			rules(conn, conn.AddTable(table))
			if err := conn.Flush(); err != nil {
				return fmt.Errorf("write a table beside the backend's: %w", err)
			}
			return nil
		}
		c.stopped = func(backend.Backend) error {
			conn, err := nftables.New()
			if err != nil {
				return fmt.Errorf("speak to nf_tables: %w", err)
			}
			conn.DelTable(table)
			if err := conn.Flush(); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("delete the table beside the backend's: %w", err)
			}
			return nil
		}
	}
}

// largeLost loses packets of more than 1200 bytes, of a protocol, whose destination was translated.
func largeLost(protocol byte) func(*nftables.Conn, *nftables.Table) {
	return lost(append(translated(),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
		&expr.Meta{Key: expr.MetaKeyLEN, Register: 1},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4}, // nf_tables orders bytes
		&expr.Cmp{Op: expr.CmpOpGt, Register: 1, Data: binaryutil.BigEndian.PutUint32(1200)},
	)...)
}

// lost loses packets that leave a node.
func lost(which ...expr.Any) func(*nftables.Conn, *nftables.Table) {
	return func(conn *nftables.Conn, table *nftables.Table) {
		chain := conn.AddChain(&nftables.Chain{
			Name: "out", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityFilter,
		})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(which, &expr.Verdict{Kind: expr.VerdictDrop})})
	}
}

// longFlow are packets of translated flows that have carried half a MiB.
func longFlow() []expr.Any {
	return append(translated(),
		&expr.Ct{Key: expr.CtKeyBYTES, Register: 1},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 8, Size: 8},
		&expr.Cmp{Op: expr.CmpOpGt, Register: 1, Data: binaryutil.BigEndian.PutUint64(512 << 10)},
	)
}

// translated are packets whose destination was, and ICMP errors about such.
func translated() []expr.Any {
	const bit = 1 << 5 // IPS_DST_NAT
	order := binaryutil.NativeEndian
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: order.PutUint32(bit), Xor: order.PutUint32(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: order.PutUint32(0)},
	}
}

// icmpError is a type and a code of ICMP, and those of ICMPv6.
type icmpError struct{ v4, v6 [2]byte }

var ( // const
	portUnreachable = icmpError{v4: [2]byte{3, 3}, v6: [2]byte{1, 4}}
	tooBig          = icmpError{v4: [2]byte{3, 4}, v6: [2]byte{2, 0}}
)

const never = 1 << 30

// icmpLost loses what passes a hook of a node of an ICMP error, about some packets, but for one in so many.
func icmpLost(e icmpError, hook *nftables.ChainHook, but uint32, about ...expr.Any) func(*nftables.Conn, *nftables.Table) {
	return func(conn *nftables.Conn, table *nftables.Table) {
		chain := conn.AddChain(&nftables.Chain{
			Name: "out", Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter,
		})
		for protocol, is := range map[byte][2]byte{unix.IPPROTO_ICMP: e.v4, unix.IPPROTO_ICMPV6: e.v6} {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(slices.Clone(about),
				&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: is[:]},
				&expr.Numgen{Register: 1, Type: unix.NFT_NG_RANDOM, Modulus: but},
				&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(0)},
				&expr.Verdict{Kind: expr.VerdictDrop},
			)})
		}
	}
}

// halfClosedTimeouts are those of connection tracking for a connection of which one end has closed, and
// what they are, in seconds, where nobody has set them: tcp_timeouts of
// net/netfilter/nf_conntrack_proto_tcp.c.
var halfClosedTimeouts = map[string]string{ // const
	"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_fin_wait":   "120",
	"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait": "60",
	"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_last_ack":   "30",
}

// forgottenAfter has connection tracking forget flows after so many seconds, by these timeouts of its. What
// it finds so at once is from an agent of this kind that was killed, and not what was before.
func forgottenAfter(seconds string, timeouts map[string]string) func(*changes) {
	return func(c *changes) {
		was := map[string]string{}
		c.started = func(backend.Backend) error {
			for path, unset := range timeouts {
				text, err := os.ReadFile(path)
				if err != nil {
					return fmt.Errorf("read a timeout of connection tracking: %w", err)
				}
				if was[path] = strings.TrimSpace(string(text)); was[path] == seconds {
					was[path] = unset
				}
				if err := os.WriteFile(path, []byte(seconds), 0o644); err != nil {
					return fmt.Errorf("set a timeout of connection tracking: %w", err)
				}
			}
			return nil
		}
		c.stopped = func(backend.Backend) (err error) {
			for path, text := range was {
				err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
			}
			return err
		}
	}
}
