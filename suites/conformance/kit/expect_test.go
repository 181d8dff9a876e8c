package kit

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/probe/sock"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// What held late must go on to hold; what held at once is not asked again.
func TestHeldLate(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.2:38081")
	for name, c := range map[string]struct {
		right  string // + or - of each answer that is looked at; the last goes on
		result conformance.Result
		looked int // at least, and not more than once if that is enough
		reason string
	}{
		"at once":            {"+-", ResultPass, 1, ""},
		"late":               {"--+", ResultPass, 6, ""},
		"late, not for long": {"--++-+", ResultFail, 5, "after "},
		"never":              {"-", ResultFail, 0, ""},
	} {
		ways := map[string]func(*Spec, Client, func() bool){
			"Expect": func(s *Spec, b Client, right func() bool) {
				w := Only(b).Times(1)
				w.class = func(remote.Result) bool { return right() }
				s.Expect(s.Outside(), TCP(at), w)
				s.good = nil // see TestAgain
			},
			"ExpectHTTP": func(s *Spec, b Client, right func() bool) {
				s.ExpectHTTP(s.Outside(), at, "/", func(*remote.Response) string { return map[bool]string{false: "not yet"}[right()] })
			},
			"ExpectHTTPWithin": func(s *Spec, b Client, right func() bool) {
				s.ExpectHTTPWithin(s.limit(), s.Outside(), at, "/", func(*remote.Response) string { return map[bool]string{false: "not yet"}[right()] })
			},
		}
		for kind, expect := range ways {
			t.Run(kind+" "+name, func(t *testing.T) {
				e, b := served(t)
				e.cfg.Dir, e.cfg.Limit = "", time.Minute
				if c.right == "-" {
					e.cfg.Limit = 300 * time.Millisecond // which is to run out
				}
				looked := 0
				r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
					expect(s, b, func() bool {
						i := min(looked, len(c.right)-1)
						looked++
						return c.right[i] == '+'
					})
				}}, corev1.IPv4Protocol)
				if r.Result != c.result || !strings.Contains(r.Reason, c.reason) || looked < c.looked || c.looked == 1 && looked > 1 {
					t.Errorf("looked %d times, %s: %s", looked, r.Result, r.Reason)
				}
			})
		}
	}
}

// What one server answered late must be its own from then on.
func TestOneHeldLate(t *testing.T) {
	for name, c := range map[string]struct {
		modes  map[int]remote.Mode // of the Service, from so many attempts on
		result conformance.Result
		reason string
	}{
		"at once": {map[int]remote.Mode{2: remote.Closed}, ResultPass, ""},
		"late":    {map[int]remote.Mode{1: remote.Closed, 2: remote.Serving}, ResultPass, ""},
		"late, not for long": {map[int]remote.Mode{1: remote.Closed, 2: remote.Serving, 4: remote.Closed},
			ResultFail, "answers of b alone, which held after "},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := served(t)
			e.cfg.Dir = ""
			place, err := sock.NewPlace(netns.At(e.nodes[0].NetNS).Do)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = place.Close() })
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				made := 0
				probe := remote.Local(t.Context(), "c", func(domain, typ, proto int) (int, error) {
					made++
					if m, ok := c.modes[made]; ok {
						mode(t, b, servicePort, m)
					}
					return place.Socket(domain, typ, proto)
				})
				t.Cleanup(probe.Close)
				s.ExpectOne(Client{Name: "c", probe: probe}, TCP(netip.MustParseAddrPort("192.0.2.2:9")), 1, b)
			}}, corev1.IPv4Protocol)
			if r.Result != c.result || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%s: %s", r.Result, r.Reason)
			}
		})
	}
}

// Hosts beyond different nodes are different clients: what one reached says nothing of another.
func TestHostsBeyondApart(t *testing.T) {
	s := &Spec{held: map[string]bool{}, at: time.Now()}
	to, w := TCP(netip.MustParseAddrPort("192.0.2.2:9")), Only(Client{Name: "b"})
	host := func(router string) Client { return Client{Name: Outside, router: &Node{Name: router}} }
	for _, router := range []string{"node-1", "node-2"} {
		s.holds(host(router), to, w, time.Now())
	}
	if s.held[w.key(host("node-3"), to)] || s.held[w.key(Client{Name: Outside}, to)] {
		t.Errorf("what held beyond two nodes is said to hold elsewhere: %v", s.held)
	}
	if len(s.good) != 2 || s.good[1].From.at() != "outside beyond node-2" {
		t.Errorf("to be asked again: %+v", s.good)
	}
}

// Nothing can be said of attempts that the client itself could not make, or not in time.
func TestSound(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.2:9")
	full := remote.Local(t.Context(), "full", func(int, int, int) (int, error) { return -1, syscall.EMFILE })
	t.Cleanup(full.Close)
	c := Client{Name: "full", probe: full}
	server := Client{Name: "b"}
	for name, judge := range map[string]func(*Spec){
		"Expect":     func(s *Spec) { s.Expect(c, TCP(at), Rejected()) },
		"ExpectOne":  func(s *Spec) { s.ExpectOne(c, TCP(at), 2, server) },
		"Attempts":   func(s *Spec) { s.Attempts(c, TCP(at), remote.Batch{}) },
		"Spread":     func(s *Spec) { s.Spread(c, TCP(at), 2, server) },
		"Open":       func(s *Spec) { s.Open(c, TCP(at), remote.Batch{}) },
		"Flows":      func(s *Spec) { s.Flows(c, UDP(at), 2) },
		"StillHTTP":  func(s *Spec) { s.StillHTTP(c, at, "/", Status(200)) },
		"ExpectHTTP": func(s *Spec) { s.ExpectHTTP(c, at, "/", NotStatus(200)) },
		"Throughout": func(s *Spec) { s.Throughout(c, TCP(at), 100, func() {}, server) },
		"All": func(s *Spec) {
			s.All(c, TCP(at), &remote.Results{Attempts: []remote.Result{{Class: remote.Timeout}, {Class: remote.LocalErr}}}, server)
		},
		"All, late": func(s *Spec) {
			s.All(c, TCP(at), &remote.Results{Attempts: []remote.Result{{Class: remote.Timeout, Late: 2 * time.Second}}}, server)
		},
		"All, late but answered": func(s *Spec) {
			s.All(c, TCP(at), &remote.Results{Attempts: []remote.Result{{Class: remote.OK, Name: "b", Late: 2 * time.Second}}}, server)
		},
	} {
		s := &Spec{env: &Env{}, ctx: t.Context(), at: time.Now(), held: map[string]bool{}}
		out, ok := s.protected(judge)
		if ok || out.result != ResultInconclusive || !strings.Contains(out.reason, "the client itself") {
			t.Errorf("%s: %+v", name, out)
		}
		if err := s.end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := &Spec{env: &Env{}, ctx: t.Context()}
	if out, ok := s.protected(func(s *Spec) {
		s.All(c, TCP(at), &remote.Results{Attempts: []remote.Result{{Class: remote.OK, Name: "b", Late: time.Second / 2}}}, server)
	}); !ok {
		t.Errorf("half a second late: %+v", out)
	}
}

// One client reaches each endpoint, but for a dataplane that declares to choose by its address:
// that may send it to one alone, and to no other than those that are wanted.
func TestSpreadPerClient(t *testing.T) {
	a, b := Client{Name: "a"}, Client{Name: "b"}
	answered := func(names ...string) *remote.Results {
		out := &remote.Results{}
		for _, name := range names {
			out.Attempts = append(out.Attempts, remote.Result{Class: remote.OK, Name: name})
		}
		return out
	}
	chooses := map[Feature]string{FeatureSpread: "the source is hashed"}
	for name, tc := range map[string]struct {
		unsupported map[Feature]string
		res         *remote.Results
		ok          bool
	}{
		"both": {nil, answered("a", "b"), true}, "one": {nil, answered("a", "a"), false},
		"one, declared": {chooses, answered("a", "a"), true}, "another, declared": {chooses, answered("a", "c"), false}, "none, declared": {chooses, answered(), false},
	} {
		s := &Spec{env: &Env{cfg: Config{Features: tc.unsupported}}, ctx: t.Context()}
		if _, ok := s.protected(func(s *Spec) { s.All(Client{Name: "x"}, Target{}, tc.res, a, b) }); ok != tc.ok {
			t.Errorf("%s: right %v, want %v", name, ok, tc.ok)
		}
	}
}
