package healthz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

func logger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func TestProxy(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name           string
		report         Report
		healthz, livez int
		lastUpdated    time.Time // of healthz
	}{
		{"fine", Report{Applied: ago(time.Hour)}, 200, 200, now},
		{"before the first rules", Report{}, 503, 200, time.Time{}},
		{"busy", Report{Applied: ago(time.Hour), Waiting: ago(59 * time.Second)}, 200, 200, now},
		{"stuck", Report{Applied: ago(time.Hour), Waiting: ago(61 * time.Second)}, 503, 503, ago(time.Hour)},
		{"stuck at exactly the limit", Report{Applied: ago(time.Hour), Waiting: ago(60 * time.Second)}, 503, 503, ago(time.Hour)},
		{"stuck at the first rules", Report{Waiting: ago(61 * time.Second)}, 503, 503, time.Time{}},
		{"node missing or leaving", Report{Applied: ago(time.Hour), Ineligible: true}, 503, 200, ago(time.Hour)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewProxy(func() Report { return c.report }, func() time.Time { return now }, logger(t))
			for path, want := range map[string]int{"/healthz": c.healthz, "/livez": c.livez, "/other": 404} {
				w := httptest.NewRecorder()
				p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				if w.Code != want {
					t.Errorf("%s: %d, want %d", path, w.Code, want)
				}
				if path != "/healthz" {
					continue
				}
				var got struct {
					LastUpdated, CurrentTime time.Time
					NodeEligible             bool
				}
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				if !got.LastUpdated.Equal(c.lastUpdated) || !got.CurrentTime.Equal(now) || got.NodeEligible == c.report.Ineligible {
					t.Errorf("body %s", w.Body)
				}
			}
		})
	}
}

// The bodies are kube-proxy's (pkg/proxy/healthcheck/proxy_health.go), without a
// newline at the end. livez says nothing of the node.
func TestProxyBodies(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	fine := Report{Applied: now.Add(-time.Hour)}
	stuck := Report{Applied: now.Add(-time.Hour), Waiting: now.Add(-time.Hour), Ineligible: true}
	families := func(healthy bool) string {
		f := fmt.Sprintf(`{"lastUpdated":"2026-01-01T11:00:00Z","healthy":%t}`, healthy)
		return `"status":{"IPv4":` + f + `,"IPv6":` + f + `}`
	}
	for _, c := range []struct {
		path   string
		report Report
		want   string
	}{
		{"/healthz", fine, `{"lastUpdated":"2026-01-01T12:00:00Z","currentTime":"2026-01-01T12:00:00Z","nodeEligible":true,"healthy":true,` + families(true) + `}`},
		{"/livez", fine, `{"lastUpdated":"2026-01-01T12:00:00Z","currentTime":"2026-01-01T12:00:00Z","healthy":true,` + families(true) + `}`},
		{"/healthz", stuck, `{"lastUpdated":"2026-01-01T11:00:00Z","currentTime":"2026-01-01T12:00:00Z","nodeEligible":false,"healthy":false,` + families(false) + `}`},
		{"/livez", stuck, `{"lastUpdated":"2026-01-01T11:00:00Z","currentTime":"2026-01-01T12:00:00Z","healthy":false,` + families(false) + `}`},
		{"/livez", Report{Applied: fine.Applied, WithoutIPv6: true}, `{"lastUpdated":"2026-01-01T12:00:00Z","currentTime":"2026-01-01T12:00:00Z","healthy":true,"status":{"IPv4":{"lastUpdated":"2026-01-01T11:00:00Z","healthy":true}}}`},
		{"/livez", Report{}, `{"lastUpdated":"2026-01-01T12:00:00Z","currentTime":"2026-01-01T12:00:00Z","healthy":true}`},
	} {
		p := NewProxy(func() Report { return c.report }, func() time.Time { return now }, logger(t))
		told := ""
		p.Answered = func(path string, code int) { told = fmt.Sprint(path, " ", code) }
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		if want := fmt.Sprint(c.path, " ", w.Code); told != want {
			t.Errorf("%s: told of %q, want %q", c.path, told, want)
		}
		if diff := cmp.Diff(c.want, w.Body.String()); diff != "" {
			t.Errorf("%s of %+v (-want +got):\n%s", c.path, c.report, diff)
		}
		if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: header %v, want that of kube-proxy's", c.path, h)
		}
	}
}

// A clock that JSON has no word for is answered for, too.
func TestProxyBeyondTime(t *testing.T) {
	p := NewProxy(func() Report { return Report{} }, func() time.Time { return time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, logger(t))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "year") {
		t.Errorf("code %d, %q", w.Code, w.Body)
	}
}

func TestServiceAnswer(t *testing.T) {
	for _, c := range []struct {
		n       int
		healthy bool
		code    int
	}{{2, true, 200}, {1, true, 200}, {0, true, 503}, {1, false, 503}, {0, false, 503}} {
		s := NewServices(func() bool { return c.healthy }, logger(t))
		name := objects.Name{Namespace: "ns", Name: "web"}
		others := plan.HealthCheck{Port: 31000, IPv4: 9, IPv6: 9}
		s.Sync(plan.Node{}, map[objects.Name]plan.HealthCheck{{Namespace: "ns", Name: "a"}: others, name: {IPv4: c.n, IPv6: 7}, {Namespace: "ns", Name: "x"}: others})
		w := httptest.NewRecorder()
		s.handler(name, false)(w, httptest.NewRequest(http.MethodGet, "/any/path", nil))
		want := fmt.Sprintf("{\n\t\"service\": {\n\t\t\"namespace\": \"ns\",\n\t\t\"name\": \"web\"\n\t},\n\t\"localEndpoints\": %d,\n\t\"serviceProxyHealthy\": %t\n}", c.n, c.healthy)
		if diff := cmp.Diff(want, w.Body.String()); diff != "" || w.Code != c.code {
			t.Errorf("%+v: code %d, body (-want +got):\n%s", c, w.Code, diff)
		}
		header := http.Header{
			"Content-Type": {"application/json"}, "X-Content-Type-Options": {"nosniff"},
			"X-Load-Balancing-Endpoint-Weight": {fmt.Sprint(c.n)},
		}
		if diff := cmp.Diff(header, w.Header()); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		w = httptest.NewRecorder()
		s.handler(name, true)(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if got := w.Header().Get("X-Load-Balancing-Endpoint-Weight"); got != "7" {
			t.Errorf("IPv6 weight is %s, want its own 7", got)
		}
	}
}

// Listeners follow Sync, a count needs no new listener, and a port that is taken
// is bound as soon as it is free.
func TestServicesListen(t *testing.T) {
	s := NewServices(func() bool { return true }, logger(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	thief, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := netip.MustParseAddrPort(thief.Addr().String()).Port()
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	name := objects.Name{Namespace: "ns", Name: "web"}
	n := plan.Node{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	sync := func(count int) { s.Sync(n, map[objects.Name]plan.HealthCheck{name: {Port: port, IPv4: count}}) }
	sync(1)
	time.Sleep(50 * time.Millisecond) // lets the first attempt to bind fail
	if err := thief.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, url, 200)
	sync(0)
	if got := get(url); got != 503 {
		t.Errorf("the request after Sync got %d, want 503", got)
	}
	s.Sync(n, nil)
	await(t, url, 0)
	sync(3)
	await(t, url, 200)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := get(url); got != 0 {
		t.Errorf("the port answers %d after Run ended", got)
	}
}

// Each family has listeners of its own, which come and go with the node's
// addresses and tell of its own endpoints. It needs root, for a node with IPv6.
func TestServicesListenPerFamily(t *testing.T) {
	ns := netns.ForTest(t, "node")
	s := NewServices(func() bool { return true }, logger(t))
	s.listen = func(ctx context.Context, addr string) (ln net.Listener, err error) {
		err = ns.Do(func() (err error) { ln, err = listenTCP(ctx, addr); return err })
		return ln, err
	}
	serve(t, s)
	inside := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
			err = ns.Do(func() (err error) { c, err = (&net.Dialer{}).DialContext(ctx, network, addr); return err })
			return c, err
		},
	}}
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	const url4, url6 = "http://127.0.0.1:32000/", "http://[::1]:32000/"
	for _, c := range []struct {
		addrs        []netip.Addr
		check        plan.HealthCheck
		code4, code6 int
	}{
		{[]netip.Addr{v4, v6}, plan.HealthCheck{Port: 32000, IPv4: 1}, 200, 503},
		{[]netip.Addr{v4, v6}, plan.HealthCheck{Port: 32000, IPv6: 2}, 503, 200},
		{[]netip.Addr{v6}, plan.HealthCheck{Port: 32000, IPv6: 2}, 0, 200},
		{[]netip.Addr{v4, v6}, plan.HealthCheck{Port: 32001, IPv4: 1, IPv6: 1}, 0, 0},
	} {
		s.Sync(plan.Node{Addrs: c.addrs}, map[objects.Name]plan.HealthCheck{{Namespace: "ns", Name: "web"}: c.check})
		awaitBy(t, &inside, url4, c.code4)
		awaitBy(t, &inside, url6, c.code6)
	}
}

// serve runs s until the test ends.
func serve(t *testing.T, s *Services) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A check that goes and comes back before a listener could be closed answers
// with its new count, and goes on doing so.
func TestServiceComesBack(t *testing.T) {
	s := NewServices(func() bool { return true }, logger(t))
	port, name := need.Port(t), objects.Name{Namespace: "ns", Name: "web"}
	n := plan.Node{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	with := func(count int) { s.Sync(n, map[objects.Name]plan.HealthCheck{name: {Port: port, IPv4: count}}) }
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	l := &listeners{open: map[bindAt]*http.Server{}, said: map[bindAt]bool{}, dead: make(chan dead)}
	with(1)
	s.adjust(t.Context(), l)
	defer func() {
		for _, srv := range l.open {
			_ = srv.Close()
		}
		l.serving.Wait()
	}()
	await(t, url, 200)
	s.Sync(n, nil)
	with(1)
	s.adjust(t.Context(), l)
	for _, c := range []struct{ count, code int }{{0, 503}, {2, 200}, {0, 503}} {
		with(c.count)
		if got := get(url); got != c.code {
			t.Errorf("with %d local endpoints: %d, want %d", c.count, got, c.code)
		}
	}
}

// broken is a listener that ends by itself.
type broken struct{ net.Listener }

func (broken) Accept() (net.Conn, error) { return nil, errors.New("accept: broken on purpose") }

// A listener that ends by itself is opened again.
func TestServiceListenerDies(t *testing.T) {
	s := NewServices(func() bool { return true }, logger(t))
	opened := 0
	s.listen = func(ctx context.Context, addr string) (net.Listener, error) {
		ln, err := listenTCP(ctx, addr)
		if opened++; opened == 1 && err == nil {
			return broken{ln}, nil
		}
		return ln, err
	}
	serve(t, s)
	port := need.Port(t)
	s.Sync(plan.Node{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		map[objects.Name]plan.HealthCheck{{Namespace: "ns", Name: "web"}: {Port: port, IPv4: 1}})
	await(t, fmt.Sprintf("http://127.0.0.1:%d/", port), 200)
}

// Nobody holds a connection: it ends with its answer, a large header is refused,
// and a request has only so long to come in.
func TestServerLimits(t *testing.T) {
	srv := newServer(http.NotFoundHandler(), logger(t))
	if srv.ReadTimeout <= 0 || srv.ReadTimeout > 5*time.Second {
		t.Errorf("a request may take %v to come in", srv.ReadTimeout)
	}
	if srv.WriteTimeout <= 0 || srv.WriteTimeout > 5*time.Second {
		t.Errorf("an answer may take %v", srv.WriteTimeout)
	}
	if srv.ErrorLog == nil {
		t.Error("what goes wrong with a connection goes to standard error")
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	defer func() { _ = srv.Close(); <-done }()
	for header, want := range map[string]string{"x": "404 Not Found", strings.Repeat("x", 64<<10): "431 "} {
		conn, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
		_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX: %s\r\n\r\n", header)
		answer, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
			t.Errorf("header of %d bytes: %q, %v; want %s and the end of the connection", len(header), answer, err, want)
		}
	}
}

// client asks from here.
var client = http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func get(url string) int { return getBy(&client, url) }

// getBy returns 0 for no connection.
func getBy(c *http.Client, url string) int {
	r, err := c.Get(url)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

func await(t *testing.T, url string, code int) {
	t.Helper()
	awaitBy(t, &client, url, code)
}

func awaitBy(t *testing.T, c *http.Client, url string, code int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for got := -1; got != code; got = getBy(c, url) {
		if time.Now().After(deadline) {
			t.Fatalf("%s answers %d, want %d", url, got, code)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestProxyRun(t *testing.T) {
	thief, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := NewProxy(func() Report { return Report{Applied: time.Now()} }, time.Now, logger(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, thief.Addr().String()) }()
	time.Sleep(50 * time.Millisecond) // lets the first attempt to bind fail
	if err := thief.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "http://"+thief.Addr().String()+"/healthz", 200)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Only what may pass is waited for.
func TestProxyRunFails(t *testing.T) {
	p := NewProxy(func() Report { return Report{} }, time.Now, logger(t))
	done := make(chan error, 1)
	go func() { done <- p.Run(t.Context(), "127.0.0.1:99999") }()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "99999") {
			t.Errorf("got %v, want an error that names the address", err)
		}
	case <-time.After(time.Minute):
		t.Error("a port that cannot be is tried again and again")
	}
}
