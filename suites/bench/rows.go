//go:build linux

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/fixtures/agent"
)

// Row is a dataplane to measure.
type Row struct {
	Name    string
	Backend string // of plumb-proxy
	Mode    string // of kube-proxy
	Kernel  bool   // a changed endpoint changes nftables
}

// Rows are all there are, by the names the command line uses.
func Rows() []Row {
	return []Row{
		{Name: "plumb-nftables", Backend: "nftables", Kernel: true},
		{Name: "plumb-iptables", Backend: "iptables", Kernel: true},
		{Name: "plumb-userspace", Backend: "userspace"},
		{Name: "kube-proxy:nftables", Mode: "nftables", Kernel: true},
		{Name: "kube-proxy:iptables", Mode: "iptables", Kernel: true},
	}
}

// ParseRows reads names separated by commas.
func ParseRows(list string) ([]Row, error) {
	var out []Row
	var names []string
	for _, r := range Rows() {
		names = append(names, r.Name)
	}
next:
	for _, name := range strings.Split(list, ",") {
		for _, r := range Rows() {
			if r.Name == strings.TrimSpace(name) {
				out = append(out, r)
				continue next
			}
		}
		return nil, fmt.Errorf("unknown dataplane row %q; known: %s", name, strings.Join(names, ", "))
	}
	return out, nil
}

func (r Row) own() bool { return r.Backend != "" }

// spec is the row's process. Kube-proxy runs without a minimum time between two
// syncs, so that its work is measured and not its waiting.
func (r Row) spec(cfg Config, at agent.Place) (agent.Spec, error) {
	if !r.own() {
		return agent.KubeProxy(cfg.KubeProxy, r.Mode, true, at)
	}
	return agent.PlumbProxy(cfg.PlumbProxy, r.Backend, at, "--log-level=debug"), nil
}

// firstLine is what the own agent logs of a complete Apply.
var firstLine = regexp.MustCompile(`msg=applied .*complete=true.* took=(\S+)`)

// firstApply is how long the process's first Apply took, 0 if it does not say.
func (s *subject) firstApply(context.Context) time.Duration {
	said, err := os.ReadFile(s.agent.Log())
	if err != nil || !s.row.own() {
		return 0
	}
	m := firstLine.FindSubmatch(said)
	if m == nil {
		return 0
	}
	d, err := time.ParseDuration(string(bytes.TrimSpace(m[1])))
	if err != nil {
		return 0
	}
	return d
}

// cleanUp removes what a row left in the node: by its own clean-up if it is ours,
// and then all rules of the namespace, which holds nothing else.
func (w *world) cleanUp(ctx context.Context, cfg Config, r Row) error {
	if r.own() {
		a, err := agent.Start(w.node, w.dir, agent.Spec{Name: "cleanup", Program: cfg.PlumbProxy, Args: []string{"--cleanup", "--backend=" + r.Backend}})
		if err != nil {
			return err
		}
		select {
		case <-a.Done():
		case <-ctx.Done():
		case <-time.After(cfg.Limit):
		}
		if err := errors.Join(a.Kill(), a.Err()); err != nil {
			return fmt.Errorf("clean up after %s: %w; see %s", r.Name, err, a.Log())
		}
	}
	return w.node.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return fmt.Errorf("flush nftables: %w", err)
		}
		conn.FlushRuleset()
		return errors.Join(conn.Flush(), netlink.ConntrackTableFlush(netlink.ConntrackTable))
	})
}
