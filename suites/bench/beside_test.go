//go:build linux

package bench

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/need"
)

// Rows are timed beside each other, each in a network of its own. One that has not
// started before is left out, and one that fails ends alone.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	need.Root(t)
	ctx, dir := t.Context(), workDir(t)
	proxy := filepath.Join(dir, "proxy")
	buildProxy(t, proxy)
	// It is what is asked for, but userspace, once its node is prepared, ends at once.
	script := "#!/bin/sh\ncase \"$*\" in *cleanup*|*init-only*) ;; *userspace*) exit 1 ;; esac\nexec " + proxy + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "plumb-proxy"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	rows, err := ParseRows("plumb-iptables,plumb-userspace,plumb-ebpf,kube-proxy:nftables")
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	server := api.New(api.Config{Logger: logger})
	w := &world{api: server}
	const services = 20
	if err := w.grow(services); err != nil {
		t.Fatal(err)
	}
	var out []Result
	for _, r := range rows {
		out = append(out, Result{Row: r.Name(), Services: services, Cold: time.Second})
	}
	out[3].Cold, out[3].Ended = 0, "cold start"
	out[0].Ended = "warm restart"
	cfg := Config{Rows: rows, Rates: turn, PlumbProxy: filepath.Join(dir, "plumb-proxy"), Limit: time.Minute, Work: dir, Dir: dir, Logger: logger}
	if err := beside(ctx, cfg, server, out); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		n     int
		ended string
	}{{packets, "warm restart"}, {0, "cold start beside others: plumb-userspace ended by itself"}, {packets, ""}, {0, "cold start"}} {
		r := out[i]
		if r.FirstPacket.N != tc.n || r.Direct.N != tc.n {
			t.Errorf("%s: %d packets and %d direct, want %d", r.Row, r.FirstPacket.N, r.Direct.N, tc.n)
		}
		if len(r.Rates) != 2 == (tc.n > 0) {
			t.Errorf("%s: rates %v", r.Row, r.Rates)
		}
		for _, rate := range r.Rates {
			if rate.Through <= 0 || rate.Direct <= 0 || rate.ThroughCPU <= 0 || rate.DirectCPU <= 0 {
				t.Errorf("%s: rate %+v", r.Row, rate)
			}
		}
		if u := r.UDPConnects; (u.Pairs >= round) != (tc.n > 0) || tc.n > 0 && (u.Direct <= 0 || u.MoreP10 > u.More || u.More > u.MoreP90) {
			t.Errorf("%s: connect(2) %+v", r.Row, u)
		}
		if !strings.HasPrefix(r.Ended, tc.ended) || tc.ended == "" && r.Ended != "" {
			t.Errorf("%s ended: %q, want %q", r.Row, r.Ended, tc.ended)
		}
		if tc.n > 0 && (r.FirstPacket.P50 <= 0 || r.FirstPacket.P50 > r.FirstPacket.P99 || r.FirstPacket.P99 > r.FirstPacket.Max) {
			t.Errorf("%s: %+v", r.Row, r.FirstPacket)
		}
	}
	if !strings.Contains(Markdown(out[1:2], ""), "ended after 0 of") {
		t.Errorf("the table does not tell:\n%s", Markdown(out[1:2], ""))
	}
}
