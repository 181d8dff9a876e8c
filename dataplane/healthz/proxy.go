// Package healthz serves what load balancers and kubelets ask of a node agent:
// /healthz and /livez of the proxy, and the healthCheckNodePorts of Services.
//
// The semantics are kube-proxy's (pkg/proxy/healthcheck of Kubernetes v1.36.3,
// KEP-3836, KEP-1669), with two differences, both where kube-proxy reports too
// early: /healthz is 503 until the rules are in the kernel for the first time, so
// that no load balancer adds a node that forwards nothing yet, and a port that
// cannot be bound is tried again instead of being given up.
package healthz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Report is the state of the proxy as its owner knows it.
type Report struct {
	Applied    time.Time // of the last complete state in the kernel; zero before the first
	Waiting    time.Time // since when a change waits to be applied; zero if none does
	Ineligible bool      // the own Node is unknown, or going away
	// WithoutIPv6: the node's kernel lacks what serves that family.
	WithoutIPv6 bool
}

// waitAtMost is how long a change waits when the proxy counts as stuck: two of
// kube-proxy's sync periods of 30 s.
const waitAtMost = 60 * time.Second

// Alive is /livez: the proxy is not stuck. It says nothing of the node, nor of
// whether the first rules are in: restarting the agent would cure neither.
func (r Report) Alive(now time.Time) bool {
	return r.Waiting.IsZero() || now.Sub(r.Waiting) < waitAtMost
}

// Healthy is what the healthCheckNodePorts report: not stuck, and rules in place.
func (r Report) Healthy(now time.Time) bool { return r.Alive(now) && !r.Applied.IsZero() }

// Proxy answers /healthz and /livez.
type Proxy struct {
	report func() Report
	now    func() time.Time
	log    *slog.Logger
	// Answered is told of each answer, but for unknown paths; nil: nobody is.
	Answered func(path string, code int)
}

// NewProxy makes the server; report and now are called for every request.
func NewProxy(report func() Report, now func() time.Time, log *slog.Logger) *Proxy {
	return &Proxy{report: report, now: now, log: log}
}

// answer is the body, in kube-proxy's names.
type answer struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
	Healthy      bool      `json:"healthy"`
	// Status is empty before the first rules. Both families are applied as one; one that the
	// kernel does not have is not there, as with a kube-proxy that has no such proxier.
	Status map[string]familyAnswer `json:"status,omitempty"`
}

type familyAnswer struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r, now := p.report(), p.now()
	a := answer{LastUpdated: r.Applied, CurrentTime: now}
	if !r.Applied.IsZero() {
		f := familyAnswer{LastUpdated: r.Applied, Healthy: r.Alive(now)}
		a.Status = map[string]familyAnswer{"IPv4": f}
		if !r.WithoutIPv6 {
			a.Status["IPv6"] = f
		}
	}
	ok := false
	switch req.URL.Path {
	case "/healthz":
		eligible := !r.Ineligible
		a.NodeEligible, a.Healthy = &eligible, r.Healthy(now)
		ok = eligible && a.Healthy
	case "/livez":
		a.Healthy = r.Alive(now)
		ok = a.Healthy
	default:
		http.NotFound(w, req)
		return
	}
	if ok {
		// As in older kube-proxies: a healthy proxy is up to date, whether or
		// not there was anything to do lately.
		a.LastUpdated = now
	}
	text, err := json.Marshal(a)
	if err != nil { // a year beyond 9999
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if p.Answered != nil {
		p.Answered(req.URL.Path, code(ok))
	}
	w.WriteHeader(code(ok))
	if _, err := w.Write(text); err != nil {
		p.log.Debug("answer not delivered", "path", req.URL.Path, "err", err)
	}
}

func code(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// The limits of a request, generous for probes. The ports are open to everybody
// who reaches the node: no connection may be held for longer than one answer.
const (
	readWithin  = 5 * time.Second
	writeWithin = 5 * time.Second
	headerBytes = 8 << 10
)

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	srv := &http.Server{
		Handler:        h,
		ReadTimeout:    readWithin,
		WriteTimeout:   writeWithin,
		MaxHeaderBytes: headerBytes,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	srv.SetKeepAlivesEnabled(false)
	return srv
}

// Run serves at addr (host:port) until ctx ends. A port that is taken, or an
// address that is not there yet, is tried again and again: a predecessor may just
// be leaving it. Any other error of listening is the end.
func (p *Proxy) Run(ctx context.Context, addr string) error {
	ln, err := p.listen(ctx, addr)
	if ln == nil {
		return err
	}
	srv := newServer(p, p.log)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		_ = srv.Close()
	}()
	p.log.Info("serving health", "addr", ln.Addr())
	err = srv.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) {
		<-done
		return nil
	}
	return fmt.Errorf("serve health at %s: %w", addr, err)
}

// bindAgain is the pause between attempts to bind.
const bindAgain = time.Second

// listen returns nil without an error when ctx ends first.
func (p *Proxy) listen(ctx context.Context, addr string) (net.Listener, error) {
	for said := false; ; said = true {
		ln, err := listenTCP(ctx, addr)
		if err == nil || ctx.Err() != nil {
			return ln, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, fmt.Errorf("serve health: %w", err)
		}
		if !said {
			p.log.Warn("nobody is served /healthz and /livez: the address is taken or not there, trying again every second",
				"addr", addr, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(bindAgain):
		}
	}
}

func listenTCP(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", addr, err)
	}
	return ln, nil
}
