//go:build linux

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
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

// flavoured makes rows true for this host: what a legacy iptables writes shows no
// nftables events. Versions before 1.8 do not say which they are, and are legacy.
func flavoured(ctx context.Context, rows []Row) ([]Row, error) {
	out := slices.Clone(rows)
	uses := func(r Row) bool { return r.Backend == "iptables" || r.Mode == "iptables" }
	if !slices.ContainsFunc(out, uses) {
		return out, nil
	}
	said, err := exec.CommandContext(ctx, "iptables", "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("find the flavour of iptables: %w", err)
	}
	for i := range out {
		if uses(out[i]) {
			out[i].Kernel = bytes.Contains(said, []byte("(nf_tables)"))
		}
	}
	return out, nil
}

// spec is the row's process. Kube-proxy runs without a minimum time between two
// syncs, so that its work is measured and not its waiting.
func (r Row) spec(cfg Config, at agent.Place) (agent.Spec, error) {
	out := agent.PlumbProxy(cfg.PlumbProxy, r.Backend, at, "--log-level=debug")
	var err error
	if !r.own() {
		out, err = agent.KubeProxy(cfg.KubeProxy, r.Mode, true, at)
	}
	out.LogDir = cfg.Dir
	return out, err
}

// firstLine is what the own agent logs of a complete Apply (dataplane/loop).
var firstLine = regexp.MustCompile(`msg=applied .*complete=true.* took=(\S+)\n`)

// firstApply is how long the first complete Apply took that a log tells of; 0, if
// it tells of none.
func firstApply(log []byte) (time.Duration, error) {
	m := firstLine.FindSubmatch(log)
	if m == nil {
		return 0, nil
	}
	d, err := time.ParseDuration(string(m[1]))
	if err != nil {
		return 0, fmt.Errorf("read the log's %q: %w", m[0], err)
	}
	return d, nil
}

// logPatience is how long the log may lag behind the rules: the line follows them.
const logPatience = 10 * time.Second

// firstApply is how long the process's first Apply took; 0 for those of others.
func (s *subject) firstApply(ctx context.Context) (took time.Duration, err error) {
	if !s.row.own() {
		return 0, nil
	}
	err = s.await(ctx, time.Now().Add(logPatience), func() (bool, error) {
		said, err := os.ReadFile(s.agent.Log())
		if err == nil {
			took, err = firstApply(said[min(s.logged, int64(len(said))):])
		}
		return took > 0, err
	})
	if errors.Is(err, errLimit) {
		err = fmt.Errorf("%s tells of no complete Apply", s.agent.Log())
	}
	return took, err
}

// cleanUp removes what a row left in the node: by its own clean-up if it is ours,
// and then all rules of the namespace, which holds nothing else.
func (w *world) cleanUp(ctx context.Context, cfg Config, r Row) error {
	if r.own() {
		a, err := agent.Start(w.node, w.dir, agent.Spec{Name: "cleanup", Program: cfg.PlumbProxy, Args: []string{"--cleanup", "--backend=" + r.Backend}, LogDir: cfg.Dir})
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
