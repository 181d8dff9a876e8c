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
	"os"
	"time"

	"golang.org/x/sys/unix"

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

// Handler serves what show asks.
func (i *Inspector) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ServicesPath, i.services)
	mux.HandleFunc("GET "+PathPath, i.way)
	return limited(mux)
}

// limited answers who may ask, as many as there is room for.
func limited(h http.Handler) http.Handler {
	room := make(chan struct{}, atOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err, _ := r.Context().Value(refusal{}).(error); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			h.ServeHTTP(w, r)
		default:
			http.Error(w, fmt.Sprintf("%d questions are being answered; ask again", atOnce), http.StatusTooManyRequests)
		}
	})
}

// refusal is the key of why a connection is answered nothing.
type refusal struct{}

// knows is a ConnContext: it notes that who asks is neither root nor the agent's own user. An
// abstract socket has no permissions.
func knows(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, refusal{}, mayAsk(c))
}

func mayAsk(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("who asks by %T is not known", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return fmt.Errorf("find out who asks: %w", err)
	}
	var who *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("find out who asks: %w", err)
	}
	if who.Uid != 0 && int(who.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not ask: only root and the agent's own user", who.Uid)
	}
	return nil
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
