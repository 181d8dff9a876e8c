package nftables

import (
	"fmt"

	lib "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// loaderName is the table of LoadConntrack; nobody ever sees it.
const loaderName = "plumbline-load"

// LoadConntrack makes the kernel load connection tracking, with its sysctls, as
// the first rule with a ct expression does. That rule comes and goes in one
// transaction: no table is left, and none of the others is touched.
func LoadConntrack(netns int) error {
	conn, err := lib.New(lib.WithNetNSFd(netns))
	if err != nil {
		return fmt.Errorf("open netfilter socket: %w", err)
	}
	table := conn.AddTable(&lib.Table{Family: lib.TableFamilyIPv4, Name: loaderName})
	chain := conn.AddChain(&lib.Chain{Table: table, Name: "load"})
	conn.AddRule(&lib.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: 1}}})
	conn.DelTable(table)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("load conntrack by a rule of table ip %s: %w", loaderName, err)
	}
	return nil
}
