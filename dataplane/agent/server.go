package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/plumbline/plumbline/dataplane/kubeproxy"
	"github.com/plumbline/plumbline/dataplane/listing"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// The paths that `plumb-proxy show` asks.
const (
	ServicesPath = "/debug/services"
	PathPath     = "/debug/path"
)

// inspectWithin bounds the wait for the Loop, which may be in the middle of a
// large sync.
const inspectWithin = 10 * time.Second

// Inspector answers questions about the plan that was applied last.
type Inspector struct {
	Mode   string // name of the backend
	Loop   *loop.Loop
	Path   func(*plan.Plan, plan.Key) (string, error) // Running's
	Logger *slog.Logger

	numbers listing.Numbers
}

// plan is the one applied last, and what the kernel refused of it. Its Services
// are replaced and never changed, so a copy of the map stays as it is; what takes
// time is done with the Loop running.
func (i *Inspector) plan(ctx context.Context) (*plan.Plan, map[plan.Key]error, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	var out *plan.Plan
	var refused map[plan.Key]error
	err := i.Loop.Inspect(ctx, func(p *plan.Plan, r map[plan.Key]error) {
		out = &plan.Plan{Node: p.Node, Services: maps.Clone(p.Services)}
		refused = maps.Clone(r)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("ask for the plan: %w; a sync is under way", err)
	}
	return out, refused, nil
}

// Handler serves metrics, /proxyMode as kube-proxy does, and what show asks.
func (i *Inspector) Handler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", kubeproxy.Ours)
		fmt.Fprint(w, i.Mode)
	})
	mux.HandleFunc("GET "+ServicesPath, i.services)
	mux.HandleFunc("GET "+PathPath, i.way)
	return mux
}

func (i *Inspector) services(w http.ResponseWriter, r *http.Request) {
	p, refused, err := i.plan(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(i.numbers.List(p, refused)); err != nil {
		i.Logger.Debug("answer not delivered", "path", r.URL.Path, "err", err)
	}
}

func (i *Inspector) way(w http.ResponseWriter, r *http.Request) {
	k, err := listing.ParseKey(r.FormValue("frontend"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if i.Path == nil {
		http.Error(w, "backend "+i.Mode+" has no path to show", http.StatusNotImplemented)
		return
	}
	p, _, err := i.plan(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	k, one, err := listing.Find(p, k)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	text, err := i.Path(one, k)
	if err != nil {
		http.Error(w, fmt.Sprintf("read the way to %s: %v", listing.KeyText(k), err), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, text)
}

// The limits of the server: listings of many Services take their time, for WriteWithin.
const (
	readWithin  = 5 * time.Second
	WriteWithin = 60 * time.Second
	bindAgain   = time.Second
)

// serve answers at an address until ctx ends. One that is taken is tried again
// and again: a predecessor may just be leaving it, and nothing else of the agent
// depends on it.
func serve(ctx context.Context, addr string, h http.Handler, log *slog.Logger) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	for said := false; errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL); said = true {
		if !said {
			log.Warn("no metrics are served: the address is taken or not there, trying again every second", "addr", addr, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(bindAgain):
		}
		ln, err = lc.Listen(ctx, "tcp", addr)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("serve metrics at %s: %w", addr, err)
	}
	srv := &http.Server{
		Handler: h, ReadTimeout: readWithin, WriteTimeout: WriteWithin,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() {
		_ = srv.Close() // the listener is closed either way
	})
	defer stop()
	log.Info("serving metrics", "addr", ln.Addr())
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics at %s: %w", addr, err)
	}
	return nil
}
