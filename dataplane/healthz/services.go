package healthz

import (
	"context"
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
	wake    chan struct{}

	mu     sync.Mutex
	want   map[bindAt]*service       // guarded by mu
	counts map[objects.Name]*service // guarded by mu
}

// bindAt is where a listener belongs, and whose it is.
type bindAt struct {
	addr netip.AddrPort
	name objects.Name
}

// service is the answer for one Service; it outlives its listeners.
type service struct {
	name objects.Name
	mu   sync.Mutex
	ipv4 int // guarded by mu
	ipv6 int // guarded by mu
}

// NewServices makes the servers; healthy is called for every request.
func NewServices(healthy func() bool, log *slog.Logger) *Services {
	return &Services{
		healthy: healthy, log: log, wake: make(chan struct{}, 1),
		want: map[bindAt]*service{}, counts: map[objects.Name]*service{},
	}
}

// Sync replaces all healthCheckNodePorts. New counts are what the next request
// sees; listeners come and go in the background.
func (s *Services) Sync(node plan.Node, checks map[objects.Name]plan.HealthCheck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.want)
	for name := range s.counts {
		if _, ok := checks[name]; !ok {
			delete(s.counts, name)
		}
	}
	for name, hc := range checks {
		svc := s.counts[name]
		if svc == nil {
			svc = &service{name: name}
			s.counts[name] = svc
		}
		svc.set(hc)
		for _, a := range node.Addrs {
			s.want[bindAt{netip.AddrPortFrom(a, hc.Port), name}] = svc
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run opens and closes listeners as Sync asks, until ctx ends.
func (s *Services) Run(ctx context.Context) error {
	open := map[bindAt]*http.Server{}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer func() {
		for _, srv := range open {
			_ = srv.Close()
		}
	}()
	said := map[bindAt]bool{}
	for {
		again := s.adjust(ctx, open, said, &serving)
		var retry <-chan time.Time
		if again {
			retry = time.After(bindAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-retry:
		}
	}
}

// adjust closes what is not wanted and opens what is; it reports whether
// something could not be bound. Closing comes first: a port may pass from one
// Service to another.
func (s *Services) adjust(ctx context.Context, open map[bindAt]*http.Server, said map[bindAt]bool, serving *sync.WaitGroup) (again bool) {
	s.mu.Lock()
	want := maps.Clone(s.want)
	s.mu.Unlock()
	for at, srv := range open {
		if want[at] == nil {
			_ = srv.Close()
			delete(open, at)
		}
	}
	maps.DeleteFunc(said, func(at bindAt, _ bool) bool { return want[at] == nil })
	for at, svc := range want {
		if open[at] != nil {
			continue
		}
		ln, err := listenTCP(ctx, at.addr.String())
		if err != nil {
			if !said[at] && ctx.Err() == nil {
				s.log.Warn("health check node port cannot be bound, will try again", "service", at.name, "err", err)
			}
			said[at], again = true, true
			continue
		}
		open[at] = s.serve(ln, svc, at.addr.Addr().Is6(), serving)
	}
	return again
}

func (s *Services) serve(ln net.Listener, svc *service, v6 bool, serving *sync.WaitGroup) *http.Server {
	srv := newServer(s.handler(svc, v6), s.log)
	serving.Go(func() { _ = srv.Serve(ln) }) // ends by Close alone
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

func (c *service) set(hc plan.HealthCheck) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ipv4, c.ipv6 = hc.IPv4, hc.IPv6
}

func (c *service) count(v6 bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v6 {
		return c.ipv6
	}
	return c.ipv4
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
func (s *Services) handler(svc *service, v6 bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n, healthy := svc.count(v6), s.healthy()
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(n))
		w.WriteHeader(code(n > 0 && healthy))
		fmt.Fprintf(w, body, svc.name.Namespace, svc.name.Name, n, healthy)
	}
}
