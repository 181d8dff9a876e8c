package healthz

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
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
		{"stuck at the first rules", Report{Waiting: ago(61 * time.Second)}, 503, 503, time.Time{}},
		{"node leaving", Report{Applied: ago(time.Hour), Leaving: true}, 503, 200, ago(time.Hour)},
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
				if !got.LastUpdated.Equal(c.lastUpdated) || !got.CurrentTime.Equal(now) || got.NodeEligible == c.report.Leaving {
					t.Errorf("body %s", w.Body)
				}
			}
		})
	}
}

// livez says nothing of the node.
func TestLivezBody(t *testing.T) {
	p := NewProxy(func() Report { return Report{Leaving: true} }, time.Now, logger(t))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", nil))
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if _, ok := got["nodeEligible"]; ok {
		t.Errorf("body %s tells of the node", w.Body)
	}
}

func TestServiceAnswer(t *testing.T) {
	for _, c := range []struct {
		n       int
		healthy bool
		code    int
	}{{2, true, 200}, {1, true, 200}, {0, true, 503}, {1, false, 503}, {0, false, 503}} {
		s := NewServices(func() bool { return c.healthy }, logger(t))
		svc := &service{name: objects.Name{Namespace: "ns", Name: "web"}}
		svc.set(plan.HealthCheck{IPv4: c.n, IPv6: 7})
		w := httptest.NewRecorder()
		s.handler(svc, false)(w, httptest.NewRequest(http.MethodGet, "/any/path", nil))
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
		s.handler(svc, true)(w, httptest.NewRequest(http.MethodGet, "/", nil))
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

// get returns 0 for no connection.
func get(url string) int {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
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
	deadline := time.Now().Add(10 * time.Second)
	for got := -1; got != code; got = get(url) {
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
