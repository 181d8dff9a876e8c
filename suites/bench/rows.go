//go:build linux

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/proxyproc"
	"github.com/plumbline/plumbline/suites/nearest"
	"github.com/plumbline/plumbline/suites/row"
)

// Row is a dataplane to measure, and what is to be known of it here.
type Row struct {
	row.Row
	Shows shows // where a changed endpoint does, in the kernel
	Bound int   // more Services have taken machines down (memory, minutes in the kernel); 0: none
}

// shows is where the kernel has what changes.
type shows int

const (
	nowhere  shows = iota
	inTables       // nftables, which tell of it
	inMaps         // eBPF's, which are looked at
)

// Name is what it is asked for by: what ours do with terminating endpoints plays no part.
func (r Row) Name() string {
	if r.Own() {
		return r.Dataplane
	}
	return r.Row.Name()
}

// Rows are all there are.
func Rows() []Row {
	var out []Row
	for _, b := range cluster.Backends() {
		r := Row{Row: row.Own(b.Name, "fallback", "drop")}
		switch {
		case b.Tables:
			r.Shows = inTables
		case b.Maps:
			r.Shows = inMaps
		}
		out = append(out, r)
	}
	return append(out,
		Row{Row: row.Row{Dataplane: row.Upstream, Mode: "nftables"}, Shows: inTables, Bound: 10_000},
		Row{Row: row.Row{Dataplane: row.Upstream, Mode: "iptables"}, Shows: inTables, Bound: 2000})
}

// RowNames are the names of those that nobody has to ask for, separated by commas.
func RowNames() string {
	var names []string
	for _, r := range Rows() {
		names = append(names, r.Name())
	}
	return strings.Join(names, ",")
}

// ParseRows reads names separated by commas.
func ParseRows(list string) ([]Row, error) {
	all := Rows()
	var out []Row
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(all, func(r Row) bool { return r.Name() == strings.TrimSpace(name) })
		if i < 0 {
			var known []string
			for _, r := range all {
				known = append(known, r.Name())
			}
			return nil, fmt.Errorf("unknown dataplane row %q%s", name, cmp.Or(nearest.Hint(name, known), "; known: "+strings.Join(known, ", ")))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// leftOut says why a row is not measured with that many Services, "" if it is.
func (c Config) leftOut(r Row, services int) string {
	if !r.Own() && c.NoKubeProxy != "" {
		return "left out: " + c.NoKubeProxy
	}
	if r.Bound == 0 || services <= r.Bound || c.Beyond {
		return ""
	}
	return fmt.Sprintf("not run beyond %d Services without --beyond-bounds", r.Bound)
}

// flavoured makes rows true for this host: what a legacy iptables writes shows no
// nftables events.
func flavoured(ctx context.Context, rows []Row) ([]Row, error) {
	out := slices.Clone(rows)
	uses := func(r Row) bool { return r.Mode == "iptables" }
	if !slices.ContainsFunc(out, uses) {
		return out, nil
	}
	flavour, err := iptables.Auto.Resolve(ctx, 0)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if uses(out[i]) && flavour != iptables.NFT {
			out[i].Shows = nowhere
		}
	}
	return out, nil
}

// spec is the row's process. Kube-proxy runs without a minimum time between two
// syncs, so that its work is measured and not its waiting.
func (w *world) spec(cfg Config, r Row) (proxyproc.Spec, error) {
	at := w.place()
	// What outlives an agent goes where nothing outlives the run.
	out := proxyproc.PlumbProxy(cfg.PlumbProxy, r.Mode, at, cluster.BackendOf(r.Mode).Args(at.Dir, w.group.Path())...)
	var err error
	if !r.Own() {
		out, err = proxyproc.KubeProxy(cfg.KubeProxy, r.Mode, true, at)
	}
	out.LogDir = cfg.Dir
	return out, err
}

// firstSync is the metric of our agents that says what the first complete sync took.
const firstSync = "plumbline_first_sync_duration_seconds"

// firstApply reads it from what an agent answers.
func firstApply(metrics io.Reader) (time.Duration, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	all := families[firstSync].GetMetric()
	if len(all) != 1 {
		return 0, fmt.Errorf("read metrics: %d of %s, want one", len(all), firstSync)
	}
	return time.Duration(all[0].GetGauge().GetValue() * float64(time.Second)), nil
}

// firstApply is how long the process's first complete Apply took; 0 for those of others. It may be over long
// after the Services answer: other families and what is removed come last. One that is not by until ends the row.
func (s *subject) firstApply(ctx context.Context, until time.Time) (took time.Duration, err error) {
	if !s.row.Own() {
		return 0, nil
	}
	last := errors.New("it says none")
	client := &http.Client{Transport: &http.Transport{DialContext: s.w.dial, DisableKeepAlives: true}}
	next := time.Now() // it works at that Apply: to be asked at each tick would take its time
	err = s.await(ctx, until, func() (bool, error) {
		if time.Now().Before(next) {
			return false, nil
		}
		defer func() { next = time.Now().Add(50 * time.Millisecond) }()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxyproc.Metrics+"/metrics", nil)
		if err != nil {
			return false, err
		}
		answer, err := client.Do(req)
		if err != nil {
			last = err
			return false, nil // asked again until its time is over
		}
		defer answer.Body.Close()
		took, err = firstApply(answer.Body)
		return took > 0, err
	})
	if errors.Is(err, errLimit) {
		err = rowsEnd{fmt.Errorf("ask %s how long its first complete Apply took: %w; see %s", s.row.Name(), last, s.agent.Log())}
	}
	return took, err
}

// dial connects from within the node.
func (w *world) dial(ctx context.Context, network, addr string) (c net.Conn, err error) {
	err = w.node.Do(func() error {
		c, err = new(net.Dialer).DialContext(ctx, network, addr)
		return err
	})
	return c, err
}

// prepare has a row of ours do in the node what its init container does in a cluster.
func (w *world) prepare(ctx context.Context, cfg Config, r Row) error {
	return w.once(ctx, cfg, r, "prepare the node for", "--init-only", "--cluster-cidr="+podCIDR.String())
}

// ownCleanUp has a row of ours remove what it left in the node.
func (w *world) ownCleanUp(ctx context.Context, cfg Config, r Row) error {
	return w.once(ctx, cfg, r, "clean up after", "--cleanup")
}

// once runs the program of a row of ours in the node, and waits until it has done its part; where it does not, the
// row ends.
func (w *world) once(ctx context.Context, cfg Config, r Row, what string, args ...string) error {
	if !r.Own() {
		return nil
	}
	a, err := proxyproc.Start(w.node, w.dir, proxyproc.Spec{
		Name: strings.TrimPrefix(args[0], "--"), Program: cfg.PlumbProxy, Args: append(args, "--backend="+r.Mode), LogDir: cfg.Dir,
	})
	if err != nil {
		return err
	}
	select {
	case <-a.Done():
		err = a.Err()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), a.Kill())
	case <-time.After(cfg.Limit):
		err = errLimit
	}
	if err != nil {
		err = rowsEnd{fmt.Errorf("%s %s: %w; see %s", what, r.Name(), err, a.Log())}
	}
	return errors.Join(err, a.Kill())
}

// flush removes all that a row can leave in the node, which has nothing else of the kind.
func (w *world) flush() error {
	return w.node.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return fmt.Errorf("flush nftables: %w", err)
		}
		conn.FlushRuleset()
		return errors.Join(conn.Flush(), netlink.ConntrackTableFlush(netlink.ConntrackTable), flushRouting())
	})
}

// flushRouting removes the routing rules that lead to tables of somebody's own.
func flushRouting() error {
	rules, err := netlink.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list routing rules: %w", err)
	}
	for _, r := range rules {
		if r.Table == unix.RT_TABLE_LOCAL || r.Table == unix.RT_TABLE_MAIN || r.Table == unix.RT_TABLE_DEFAULT {
			continue
		}
		if err := netlink.RuleDel(&r); err != nil {
			return fmt.Errorf("remove routing rule %s: %w", r, err)
		}
	}
	return nil
}
