package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"github.com/plumbline/plumbline/dataplane/listing"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// DebugSocket is where an agent answers `plumb-proxy show` by default: a unix socket in the
// abstract namespace, of which each network namespace has its own (unix(7)).
const DebugSocket = "@plumb-proxy"

// The paths that `plumb-proxy show` asks.
const (
	ServicesPath = "/debug/services"
	PathPath     = "/debug/path"
)

// inspectWithin bounds the wait for the Loop, which may be in the middle of a
// large sync.
const inspectWithin = 10 * time.Second

// atOnce is how many questions are answered at a time; more are turned away.
const atOnce = 2

// Inspector answers root's questions about the plan that was applied last.
type Inspector struct {
	Mode string // name of the backend
	Loop *loop.Loop
	// Path and Live are Running's.
	Path   func(*plan.Plan, plan.Key) (string, error)
	Live   func(*plan.Plan) (*plan.Plan, []plan.Key, error)
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

// Serve answers what show asks at an abstract unix socket, until ctx ends.
func (i *Inspector) Serve(ctx context.Context, socket string) error {
	return server{"what show asks", "unix", socket, i.handler(), i.Logger}.run(ctx)
}

func (i *Inspector) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ServicesPath, i.services)
	mux.HandleFunc("GET "+PathPath, i.way)
	return limited(mux)
}

// limited answers who may ask, as many as there is room for.
func limited(h http.Handler) http.Handler {
	room := make(chan struct{}, atOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, known := r.Context().Value(asker{}).(asker); !known || who.refused != nil {
			w.Header().Set("Connection", "close")
			http.Error(w, fmt.Sprintf("not answered: %v", who.refused), http.StatusForbidden)
			return
		}
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("Connection", "close")
			http.Error(w, fmt.Sprintf("%d questions are being answered; ask again", atOnce), http.StatusTooManyRequests)
		}
	})
}

func (i *Inspector) services(w http.ResponseWriter, r *http.Request) {
	p, refused, err := i.plan(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if i.Live != nil {
		live, missing, err := i.Live(p)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p = live
		for _, k := range missing {
			if refused[k] == nil {
				refused[k] = listing.ErrMissing
			}
		}
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
