package kit

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/promise"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// What did not hold yet in the cluster's Kubernetes is not asked of its dataplane.
func TestNotApplicable(t *testing.T) {
	for version, want := range map[string]conformance.Result{"v1.33.4": ResultSkip, "v1.34.0": ResultPass, "v1.36.3-gke.1": ResultPass} {
		e, _ := served(t)
		e.version = version
		asked := false
		r := e.run(t.Context(), Behaviour{
			ID: "x", Promises: []promise.Promise{promise.AllEvenly, promise.SameNode}, Run: func(*Spec) { asked = true },
		}, corev1.IPv4Protocol)
		if r.Result != want || asked != (want == ResultPass) {
			t.Errorf("%s: %s (%s), asked %v; want %s", version, r.Result, r.Reason, asked, want)
		}
		if want == ResultSkip && (!strings.Contains(r.Reason, "not applicable") || !strings.Contains(r.Reason, "1.34") || !strings.Contains(r.Reason, version)) {
			t.Errorf("%s: reason %q", version, r.Reason)
		}
	}
}

// What mostly waits takes no place of another, and what disturbs others waits for it.
func TestWaitsBesideOthers(t *testing.T) {
	for seed := range int64(6) { // orders
		e, _ := served(t)
		e.cfg.Dir, e.cfg.Families, e.cfg.Parallel, e.cfg.Seed = "", []corev1.IPFamily{corev1.IPv4Protocol}, 1, seed
		worked := make(chan struct{})
		var order []string
		e.Run(t.Context(), []Behaviour{
			{ID: "alone", Serial: true, Run: func(*Spec) {}},
			{ID: "works", Run: func(*Spec) { close(worked) }},
			{ID: "waits", Waits: true, Run: func(s *Spec) {
				select {
				case <-worked:
				case <-time.After(20 * time.Second):
					s.Fail("nothing ran beside it")
				}
			}},
		}, func(r Result) { order = append(order, r.Behaviour.ID+" "+string(r.Result)) })
		if got := strings.Join(order, ", "); got != "works pass, waits pass, alone pass" && got != "waits pass, works pass, alone pass" {
			t.Errorf("seed %d: %s", seed, got)
		}
	}
}

// What takes long is not left for the end, whatever the seed.
func TestLongOnesFirst(t *testing.T) {
	for seed := range int64(6) {
		e, _ := served(t)
		e.cfg.Dir, e.cfg.Families, e.cfg.Parallel, e.cfg.Seed = "", []corev1.IPFamily{corev1.IPv4Protocol}, 1, seed
		var order []string
		e.Run(t.Context(), []Behaviour{
			{ID: "one", Run: func(*Spec) {}},
			{ID: "two", Run: func(*Spec) {}},
			{ID: "long", Long: true, Run: func(*Spec) {}},
		}, func(r Result) { order = append(order, r.Behaviour.ID) })
		if order[0] != "long" {
			t.Errorf("seed %d: %s", seed, order)
		}
	}
}

// An answer that is to stay is asked for until the end, and no wrong one is let pass.
func TestKeepsHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		wrong  int // which answer is
		result conformance.Result
	}{"right": {0, ResultPass}, "wrong in between": {3, ResultFail}} {
		t.Run(name, func(t *testing.T) {
			e, _ := served(t)
			e.cfg.Dir = ""
			looked := 0
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				s.KeepsHTTP(3*time.Second, s.Outside(), netip.MustParseAddrPort("192.0.2.2:38081"), "/", func(*remote.Response) string {
					looked++
					return map[bool]string{true: "not so"}[looked == c.wrong]
				})
			}}, corev1.IPv4Protocol)
			if r.Result != c.result || looked < 3 {
				t.Errorf("%s (%s) after %d answers, want %s", r.Result, r.Reason, looked, c.result)
			}
		})
	}
}

// Where a refusal and silence are both right, the report says which it was.
func TestUnreachableIsSaid(t *testing.T) {
	e, b := served(t)
	mode(t, b, servicePort, remote.Closed)
	r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
		s.Expect(s.Outside(), TCP(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.2"), servicePort)), Unreachable())
	}}, corev1.IPv4Protocol)
	if said := strings.Join(r.Said, "\n"); r.Result != ResultPass || !strings.Contains(said, "24 refused") {
		t.Errorf("%s (%s), said %q", r.Result, r.Reason, said)
	}
}

// Where proxies say how they are is what is declared, and else as with kube-proxy.
func TestHealthAt(t *testing.T) {
	node := &Node{Client: Client{addrs: families([]netip.Addr{netip.MustParseAddr("192.0.2.2")})}}
	for want, h := range map[string]HealthAt{
		"192.0.2.2:10256 /healthz /livez": {},
		"192.0.2.2:9879 /ready /livez":    {Port: 9879, Healthz: "/ready"},
		"192.0.2.2:10256 /healthz /alive": {Livez: "/alive"},
	} {
		s := &Spec{Family: corev1.IPv4Protocol, env: &Env{cfg: Config{Health: h}}}
		if got := s.ProxyHealth(node).String() + " " + s.Healthz() + " " + s.Livez(); got != want {
			t.Errorf("%+v: %s, want %s", h, got, want)
		}
	}
}
