//go:build linux

package others

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// KubeProxyTable is the table, of families ip and ip6, of kube-proxy in mode nftables.
const KubeProxyTable = "kube-proxy"

// kubeProxyChains are kube-proxy's in mode iptables, but for those that begin with one of
// kubeProxyKinds; kubelet has chains KUBE- as well. [kubernetes/pkg/proxy/iptables/cleanup.go]
var (
	kubeProxyChains = map[string][]string{
		"nat":    {"KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-PROXY-CANARY"},
		"filter": {"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY"},
		"mangle": {"KUBE-PROXY-CANARY"},
	}
	kubeProxyKinds = []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-", "KUBE-XLB-"}
)

// IsKubeProxys tells whether a chain of iptables is kube-proxy's.
func IsKubeProxys(table, chain string) bool {
	return slices.Contains(kubeProxyChains[table], chain) ||
		table == "nat" && slices.ContainsFunc(kubeProxyKinds, func(kind string) bool { return strings.HasPrefix(chain, kind) })
}

// KubeProxy is what a kube-proxy left or keeps in a namespace. Of iptables-legacy these are
// the chains that have rules. With an error it is what could be found.
func KubeProxy(cfg Config) (left []Trace, err error) {
	cfg.Proc = cmp.Or(cfg.Proc, "/proc")
	var errs []error
	for _, look := range []func(Config) ([]Trace, error){kubeProxyRules, kubeProxyLegacy, links} {
		found, err := steady(func() ([]Trace, error) { return look(cfg) })
		left, errs = append(left, found...), append(errs, err)
	}
	return slices.DeleteFunc(left, notKubeProxys), errors.Join(errs...)
}

// KubeProxyRunning are the processes of a kube-proxy that runs in a namespace.
func KubeProxyRunning(cfg Config) ([]Trace, error) {
	cfg.Proc = cmp.Or(cfg.Proc, "/proc")
	return steady(func() ([]Trace, error) { return processesOf(cfg, "kube-proxy") })
}

// embed are programs that may have a kube-proxy in them.
var embed = []string{"k3s", "k3s-server", "k3s-agent", "rke2", "kubelite"} // const

// SeesNode tells whether a node's processes are seen, not a container's alone: its kubelet, or
// the kernel's own, which the host's first namespace alone has; and none of them may have a
// kube-proxy in it.
func SeesNode(proc string) (seen bool, err error) {
	names, err := filepath.Glob(proc + "/[0-9]*/comm")
	if err != nil {
		return false, fmt.Errorf("look at processes: %w", err)
	}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		text := strings.TrimSpace(string(comm))
		if slices.Contains(embed, text) {
			return false, nil
		}
		seen = seen || text == "kubelet" || text == "kthreadd"
	}
	return seen, nil
}

func notKubeProxys(t Trace) bool { return t.Who != "kube-proxy" }

func kubeProxyLegacy(cfg Config) ([]Trace, error) {
	found, err := legacyChains(cfg, ofKubeProxy)
	return inTables(found), err
}

func kubeProxyRules(Config) ([]Trace, error) {
	found, err := rules(func(table string) string { return kubeProxyIf(table == KubeProxyTable) }, ofKubeProxy, true)
	return inTables(found), err
}

func ofKubeProxy(table, chain string) string { return kubeProxyIf(IsKubeProxys(table, chain)) }

func kubeProxyIf(is bool) string {
	if is {
		return "kube-proxy"
	}
	return ""
}

// inTables makes one of the many chains of a table.
func inTables(chains []Trace) (out []Trace) {
	for _, t := range chains {
		if _, table, ok := strings.Cut(t.What, " of table "); ok {
			t.What = "chains KUBE-* of table " + table
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
