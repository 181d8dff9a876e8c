//go:build linux

package others

import (
	"fmt"
	"strings"

	lib "github.com/google/nftables"

	"github.com/plumbline/plumbline/dataplane/iptables"
	own "github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/userspace"
)

// ofTable is whose a table of nftables is; empty: no Service proxy's.
func ofTable(name string) string {
	return map[string]string{"kube-proxy": "kube-proxy", own.TableName: "plumb-nftables", userspace.TableName: "plumb-userspace"}[name]
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
	if strings.HasPrefix(name, iptables.Prefix) {
		return "plumb-iptables"
	}
	return ""
}

// nftables looks at the tables of nftables and the chains of iptables-nft, which are some
// of them. A chain without rules does nothing.
func nftables(Config) ([]Trace, error) {
	conn, err := lib.New(lib.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("look at nftables: %w", err)
	}
	defer conn.CloseLasting()
	var out []Trace
	for _, family := range []struct {
		lib.TableFamily
		text string
	}{{lib.TableFamilyIPv4, "ip"}, {lib.TableFamilyIPv6, "ip6"}, {lib.TableFamilyINet, "inet"}} {
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
			who := ofChain(c.Name)
			if who == "" {
				continue
			}
			rules, err := conn.GetRules(c.Table, c)
			if err != nil {
				return out, fmt.Errorf("look at nftables: list the rules of chain %s %s %s: %w", family.text, c.Table.Name, c.Name, err)
			}
			if len(rules) > 0 {
				out = append(out, Trace{Who: who, What: fmt.Sprintf("chain %s of table %s %s", c.Name, family.text, c.Table.Name)})
			}
		}
	}
	return out, nil
}
