//go:build linux

package others

import (
	"fmt"
	"strings"

	lib "github.com/google/nftables"

	"github.com/plumbline/plumbline/dataplane/backend"
)

// ofTable is whose a table of nftables is; empty: no Service proxy's.
func ofTable(name string) string {
	if name == "kube-proxy" {
		return name
	}
	return ours(func(b backend.Backend) bool { return b.Table == name })
}

// ofChain is whose a chain of iptables is. Only those are told that lead to Services:
// kubelet has chains KUBE- as well. [kubernetes/pkg/proxy/iptables/proxier.go,
// kube-router/pkg/controllers/proxy, ovn-kubernetes/go-controller/pkg/node/iptables]
func ofChain(name string) string {
	switch name {
	case "KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL":
		return "kube-proxy"
	case "KUBE-ROUTER-SERVICES":
		return "kube-router"
	case "OVN-KUBE-NODEPORT", "OVN-KUBE-EXTERNALIP", "OVN-KUBE-ITP":
		return "OVN-Kubernetes"
	}
	return ours(func(b backend.Backend) bool { return b.Chains != "" && strings.HasPrefix(name, b.Chains) })
}

// ours is the dataplane of our own that leaves what is asked for; empty: none does.
func ours(leaves func(backend.Backend) bool) string {
	for name, b := range backend.All(0) {
		if leaves(b) {
			return "plumb-" + name
		}
	}
	return ""
}

// nftables looks at the tables of nftables and the chains of iptables-nft, which are some
// of them. A chain without rules does nothing.
func nftables(Config) ([]Trace, error) {
	return rules(ofTable, func(_, chain string) string { return ofChain(chain) }, false)
}

type family struct {
	lib.TableFamily
	text string
}

// families are those whose tables see packets of IP.
func families() []family {
	return []family{{lib.TableFamilyIPv4, "ip"}, {lib.TableFamilyIPv6, "ip6"}, {lib.TableFamilyINet, "inet"}}
}

// rules are the tables and chains that somebody's names tell of; of the chains those alone that
// have rules, unless empty ones count.
func rules(ofTable func(name string) string, ofChain func(table, name string) string, empty bool) ([]Trace, error) {
	conn, err := lib.New(lib.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("look at nftables: %w", err)
	}
	defer conn.CloseLasting()
	var out []Trace
	for _, family := range families() {
		tables, err := conn.ListTablesOfFamily(family.TableFamily)
		if err != nil {
			return out, fmt.Errorf("look at nftables: list tables of family %s: %w", family.text, err)
		}
		for _, t := range tables {
			if who := ofTable(t.Name); who != "" {
				out = append(out, Trace{Who: who, What: "table " + family.text + " " + t.Name})
			}
		}
		chains, err := conn.ListChainsOfTableFamily(family.TableFamily)
		if err != nil {
			return out, fmt.Errorf("look at nftables: list chains of family %s: %w", family.text, err)
		}
		for _, c := range chains {
			who := ofChain(c.Table.Name, c.Name)
			if who == "" {
				continue
			}
			if !empty {
				rules, err := conn.GetRules(c.Table, c)
				if err != nil {
					return out, fmt.Errorf("look at nftables: list the rules of chain %s %s %s: %w", family.text, c.Table.Name, c.Name, err)
				}
				if len(rules) == 0 {
					continue
				}
			}
			out = append(out, Trace{Who: who, What: fmt.Sprintf("chain %s of table %s %s", c.Name, family.text, c.Table.Name)})
		}
	}
	return out, nil
}
