//go:build linux

package bench

import (
	"encoding/binary"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/need"
)

// Changes at a rate, of big Services, and beside flows: the kernel gets each of them, and
// remembers no flow to an endpoint that went. A restart is measured without load, and under it.
func TestChanges(t *testing.T) {
	need.Root(t)
	dir := workDir(t)
	cfg := Config{
		PlumbProxy: filepath.Join(dir, "plumb-proxy"), Limit: time.Minute, Work: dir, Logger: slog.New(slog.DiscardHandler),
		Changes: 10, Steady: time.Second, Endpoints: []int{250}, Flows: 500, Restarts: 1, Connections: 200,
	}
	buildProxy(t, cfg.PlumbProxy)
	rows, err := ParseRows("plumb-nftables,plumb-iptables,plumb-ebpf")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Run(row.Name(), func(t *testing.T) {
			w, err := newWorld(t.Context(), dir, api.New(api.Config{Logger: cfg.Logger}), cfg.Logger)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}()
			const services = 400 // at 200 a second each is changed once
			if err := w.grow(services); err != nil {
				t.Fatal(err)
			}
			got, err := w.measure(t.Context(), cfg, row, services)
			if err != nil || got.Ended != "" {
				t.Fatalf("%v, ended: %s", err, got.Ended)
			}
			// The others have no elements.
			if has := row.Name() == "plumb-nftables"; has != (got.Kernel > 0) || has != (got.ColdRatio() > 1) {
				t.Errorf("the kernel alone: %v, of a cold start of %v", got.Kernel, got.Cold)
			}
			if got.Quiet.N != 1 || got.QuietApply <= 0 {
				t.Errorf("a restart without load: %+v, its first Apply took %v", got.Quiet, got.QuietApply)
			}
			if got.Warm.N != 1 || got.WarmApply <= 0 || got.Load.Sent < 150 || got.Load.Failed > 0 {
				t.Errorf("a restart under load: %+v, its first Apply took %v, %v", got.Warm, got.WarmApply, got.Load)
			}
			if s := got.Steady; s.Spread.N != 200 || s.Spread.Of != 200 || s.Coalesced != 0 || s.Spread.P50 <= 0 || s.Rate > 210 {
				t.Errorf("changes at a rate: %+v", s)
			}
			if len(got.Bigs) != 1 || got.Bigs[0].Endpoints != 250 || got.Bigs[0].Change.N != 10 || (got.Bigs[0].Ops > 0) != (row.Shows == inTables) {
				t.Errorf("big Services: %+v", got.Bigs)
			}
			if row.Shows != inTables {
				return
			}
			// Of the fifty Services of UDP, half were changed, and each had ten flows.
			if f := got.Flows; f.Open != 500 || f.Stale != 0 || f.Ended < 5 {
				t.Errorf("flows: %+v", f)
			}
		})
	}
}

// An endpoint is seen where its address is in a commit; what follows before it is seen
// takes its place, and what does not come is missing.
func TestAwait(t *testing.T) {
	a, at := newAwait(), time.Now()
	addr := func(n byte) edit { return edit{fresh: []netip.Addr{netip.AddrFrom4([4]byte{10, 224, 0, n})}} }
	said := func(n byte) []byte { return binary.BigEndian.AppendUint32(make([]byte, 8), 10<<24|224<<16|uint32(n)) }
	a.write(1, addr(1))
	a.write(2, addr(2))
	a.look(said(1))
	if a.left() != 2 {
		t.Error("seen before the commit")
	}
	a.committed(at)
	a.look(said(1))                             // nobody waits for it any more
	a.look(append(make([]byte, 2), said(2)...)) // on no place of an attribute
	a.committed(at)
	if a.left() != 1 || len(a.took) != 1 {
		t.Errorf("%d are left, %d were seen", a.left(), len(a.took))
	}
	a.write(2, addr(3))
	a.look(said(2))
	a.committed(at)
	if a.coalesced != 1 || a.left() != 1 {
		t.Errorf("%d coalesced, %d left", a.coalesced, a.left())
	}
	var none *await
	none.look(said(1))
	none.committed(at)
	if got := (Steady{Spread: Spread{N: 1, Of: 3, P50: time.Second, P99: time.Second}, Coalesced: 1}).String(); got != "1 s / 1 s (ended after 1 of 3), 1 coalesced" {
		t.Errorf("says %q", got)
	}
}
