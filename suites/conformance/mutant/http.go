package mutant

import (
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"

	"github.com/plumbline/plumbline/dataplane/healthz"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// front answers for a server behind it, in its own words.
type front struct {
	behind string // host:port
	answer func(*http.Response) error
	log    *slog.Logger
	srv    *http.Server
}

// open listens at an address at once, and answers until close.
func (f *front) open(addr string) {
	to := &url.URL{Scheme: "http", Host: f.behind}
	f.srv = &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: f.answer,
		ErrorLog:       slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		f.log.Error("the mutation itself did not work", "err", err)
		return
	}
	go func() {
		_ = f.srv.Serve(ln) // it ends with close or the process
	}()
}

func (f *front) close() { _ = f.srv.Close() }

// brokenChecks lets the real ones answer at loopback addresses only, and has
// fronts where load balancers ask.
type brokenChecks struct {
	real    *healthz.Services
	changes *changes
	open    map[string]*front
}

// Sync opens and closes fronts at once.
func (b *brokenChecks) Sync(node plan.Node, checks map[objects.Name]plan.HealthCheck) {
	checks = maps.Clone(checks)
	if b.changes.synced != nil {
		b.changes.synced(&node, checks)
	}
	if b.changes.answer == nil {
		b.real.Sync(node, checks)
		return
	}
	want := map[string]string{} // by address, who is behind
	loopback := node
	loopback.Addrs = nil
	for _, a := range node.Addrs {
		own := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if a.Is6() {
			own = netip.IPv6Loopback()
		}
		loopback.Addrs = append(loopback.Addrs, own)
		for _, hc := range checks {
			want[netip.AddrPortFrom(a, hc.Port).String()] = netip.AddrPortFrom(own, hc.Port).String()
		}
	}
	b.real.Sync(loopback, checks)
	for at, f := range b.open {
		if want[at] == "" {
			f.close()
			delete(b.open, at)
		}
	}
	for at, behind := range want {
		if b.open[at] == nil {
			b.open[at] = &front{behind: behind, answer: b.changes.answer, log: slog.New(slog.DiscardHandler)}
			b.open[at].open(at)
		}
	}
}
