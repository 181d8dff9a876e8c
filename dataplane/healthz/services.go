package healthz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Services serves the healthCheckNodePorts: one listener for each Service and
// each of the node's addresses, so that a client of one family sees the count
// of that family.
type Services struct {
	healthy func() bool
	log     *slog.Logger
	listen  func(ctx context.Context, addr string) (net.Listener, error) // listenTCP, except in tests
	wake    chan struct{}

	mu     sync.Mutex
	want   map[bindAt]bool                   // guarded by mu
	checks map[objects.Name]plan.HealthCheck // guarded by mu
}

// bindAt is where a listener belongs, and whose it is.
type bindAt struct {
	addr netip.AddrPort
	name objects.Name
}

// NewServices makes the servers; healthy is called for every request.
func NewServices(healthy func() bool, log *slog.Logger) *Services {
	return &Services{
		healthy: healthy, log: log, listen: listenTCP, wake: make(chan struct{}, 1),
		want: map[bindAt]bool{}, checks: map[objects.Name]plan.HealthCheck{},
	}
}

// Sync replaces all healthCheckNodePorts. New counts are what the next request
// sees; listeners come and go in the background.
func (s *Services) Sync(node plan.Node, checks map[objects.Name]plan.HealthCheck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks = maps.Clone(checks)
	clear(s.want)
	for name, hc := range checks {
		for _, a := range node.Addrs {
			s.want[bindAt{netip.AddrPortFrom(a, hc.Port), name}] = true
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// listeners are what Run has open.
type listeners struct {
	open    map[bindAt]*http.Server
	said    map[bindAt]bool // that it cannot be bound
	dead    chan dead
	serving sync.WaitGroup
}

// dead is a server that stopped without being told to.
type dead struct {
	at  bindAt
	srv *http.Server
}

// Run opens and closes listeners as Sync asks, until ctx ends.
func (s *Services) Run(ctx context.Context) error {
	l := &listeners{open: map[bindAt]*http.Server{}, said: map[bindAt]bool{}, dead: make(chan dead)}
	defer l.serving.Wait()
	defer func() {
		for _, srv := range l.open {
			_ = srv.Close()
		}
	}()
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-retry:
		case d := <-l.dead:
			_ = d.srv.Close()
			if l.open[d.at] == d.srv {
				delete(l.open, d.at)
			}
			retry = time.After(bindAgain)
			continue
		}
		retry = nil
		if s.adjust(ctx, l) {
			retry = time.After(bindAgain)
		}
	}
}

// adjust closes what is not wanted and opens what is; it reports whether
// something could not be bound. Closing comes first: a port may pass from one
// Service to another.
func (s *Services) adjust(ctx context.Context, l *listeners) (again bool) {
	s.mu.Lock()
	want := maps.Clone(s.want)
	s.mu.Unlock()
	for at, srv := range l.open {
		if !want[at] {
			_ = srv.Close()
			delete(l.open, at)
		}
	}
	maps.DeleteFunc(l.said, func(at bindAt, _ bool) bool { return !want[at] })
	for at := range want {
		if l.open[at] != nil {
			continue
		}
		ln, err := s.listen(ctx, at.addr.String())
		if err != nil {
			if !l.said[at] && ctx.Err() == nil {
				s.log.Warn("health check node port cannot be bound, will try again", "service", at.name, "err", err)
			}
			l.said[at], again = true, true
			continue
		}
		l.open[at] = s.serve(ctx, ln, at, l)
	}
	return again
}

func (s *Services) serve(ctx context.Context, ln net.Listener, at bindAt, l *listeners) *http.Server {
	srv := newServer(s.handler(at.name, at.addr.Addr().Is6()), s.log)
	l.serving.Go(func() {
		err := srv.Serve(ln)
		if errors.Is(err, http.ErrServerClosed) {
			return
		}
		s.log.Warn("health check node port is served no more, will open it again", "service", at.name, "addr", at.addr, "err", err)
		select {
		case l.dead <- dead{at, srv}:
		case <-ctx.Done():
		}
	})
	return srv
}

// Ports are the bound or wanted ports, for logs and tests.
func (s *Services) Ports() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for at := range s.want {
		out = append(out, at.addr.String()+" "+at.name.String())
	}
	slices.Sort(out)
	return out
}

// count is looked up for every request, so that a listener that outlives its
// Service, or waits for the Service to come back, never tells of an old state.
func (s *Services) count(name objects.Name, v6 bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	hc := s.checks[name]
	if v6 {
		return hc.IPv6
	}
	return hc.IPv4
}

// body is what kube-proxy writes, byte for byte.
const body = `{
	"service": {
		"namespace": %q,
		"name": %q
	},
	"localEndpoints": %d,
	"serviceProxyHealthy": %t
}`

// handler answers any path: 200 with local ready endpoints and a healthy proxy,
// 503 otherwise.
func (s *Services) handler(name objects.Name, v6 bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n, healthy := s.count(name, v6), s.healthy()
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(n))
		w.WriteHeader(code(n > 0 && healthy))
		fmt.Fprintf(w, body, name.Namespace, name.Name, n, healthy)
	}
}
