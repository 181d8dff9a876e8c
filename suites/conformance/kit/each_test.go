package kit

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// Every way is asked, side by side; one that is wrong is asked again alone, and fails the
// behaviour by its name.
func TestEach(t *testing.T) {
	for name, c := range map[string]struct {
		port   uint16 // of the second way
		result conformance.Result
		reason string
	}{
		"all right": {9, ResultPass, ""},
		"one wrong": {10, ResultFail, "outside to 192.0.2.2:10/tcp: want answers of b alone"},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := served(t)
			e.cfg.Dir, e.cfg.Limit = "", 300*time.Millisecond
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				at := func(port uint16) Target { return TCP(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.2"), port)) }
				s.Each([]Way{{s.Outside(), at(9)}, {s.Outside(), at(c.port)}}, Only(b).Times(5))
				if s.attempts < 10 {
					t.Errorf("%d attempts", s.attempts)
				}
				if !s.held[Only(b).key(s.Outside(), at(9))] {
					t.Error("what held is not known to")
				}
			}}, corev1.IPv4Protocol)
			if r.Result != c.result || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%s: %s", r.Result, r.Reason)
			}
		})
	}
}

// What Each found wrong at first must go on to hold; what was right at once is not asked again.
func TestEachHeldLate(t *testing.T) {
	for name, c := range map[string]struct {
		right  string // + or - of each answer that is looked at; the last goes on
		result conformance.Result
		looked int // at most, if it is one; or at least
		reason string
	}{
		"at once":            {"+-", ResultPass, 1, ""},
		"late":               {"-+", ResultPass, 2 + confirmations, ""},
		"late, not for long": {"-++-+", ResultFail, 4, "after "},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := served(t)
			e.cfg.Dir, e.cfg.Limit = "", time.Minute
			looked := 0
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				w := Only(b).Times(1)
				w.class = func(remote.Result) bool {
					i := min(looked, len(c.right)-1)
					looked++
					return c.right[i] == '+'
				}
				s.Each([]Way{{s.Outside(), TCP(netip.MustParseAddrPort("192.0.2.2:38081"))}}, w)
				s.good = nil // see TestAgain
			}}, corev1.IPv4Protocol)
			if r.Result != c.result || !strings.Contains(r.Reason, c.reason) || looked < c.looked || c.looked == 1 && looked > 1 {
				t.Errorf("looked %d times, %s: %s", looked, r.Result, r.Reason)
			}
		})
	}
}

// What held since the last change may not be wrong in a later round, whoever asks.
func TestEachAfterHeld(t *testing.T) {
	for name, c := range map[string]struct {
		between func(*Spec)
		result  conformance.Result
		reason  string
	}{
		"held, then wrong":  {func(*Spec) {}, ResultFail, "want answers of b alone, but "},
		"changed meanwhile": {(*Spec).changed, ResultPass, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := served(t)
			e.cfg.Dir, e.cfg.Limit = "", time.Minute
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				looked := 0
				w := Only(b).Times(1)
				w.class = func(remote.Result) bool { looked++; return looked != 2 }
				ways := []Way{{s.Outside(), TCP(netip.MustParseAddrPort("192.0.2.2:38081"))}}
				s.Each(ways, w)
				c.between(s)
				s.Each(ways, w)
			}}, corev1.IPv4Protocol)
			if r.Result != c.result || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%s: %s", r.Result, r.Reason)
			}
		})
	}
}

// Who answers that no state so far has allowed to is not late; who was allowed to before is. Under
// policy Local it is allowed where it stands.
func TestUnexpected(t *testing.T) {
	wanted, at := Client{Name: "wanted"}, TCP(netip.MustParseAddrPort("192.0.2.2:9"))
	asks := map[string]func(*Spec, Client){
		"Expect":    func(s *Spec, c Client) { s.Expect(c, at, Only(wanted).Times(3)) },
		"ExpectOne": func(s *Spec, c Client) { s.ExpectOne(c, at, 3, wanted) },
		"Reach":     func(s *Spec, c Client) { s.Flows(c, at, 2).Reach(wanted) },
		"Cease":     func(s *Spec, c Client) { s.Flows(c, at, 2).Cease() },
	}
	const late, never = "", "in no state of the Service so far"
	for name, c := range map[string]struct {
		before Endpoint // of the one that answers
		node   string
		policy func(*corev1.Service)
		reason string
	}{
		"ready before":                {Endpoint{}.Bare(), "", ExternalCluster, late},
		"terminating before":          {Endpoint{}.With(new(false), new(true), new(true)), "", ExternalCluster, late},
		"never ready":                 {Endpoint{}.With(new(false), new(false), new(false)), "", ExternalCluster, never},
		"ended before":                {Endpoint{}.With(new(false), new(false), new(true)), "", ExternalCluster, never},
		"of the node, Local":          {Endpoint{}.Bare(), "b", ExternalLocal, late},
		"of another node, Local":      {Endpoint{}.Bare(), "c", ExternalLocal, never},
		"of another node, of Cluster": {Endpoint{}.Bare(), "c", ExternalCluster, late},
	} {
		for by, ask := range asks {
			t.Run(by+" "+name, func(t *testing.T) {
				e, _ := served(t)
				e.cfg.Dir, e.cfg.Limit = "", 300*time.Millisecond
				r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
					o := &corev1.Service{}
					o.Spec.ExternalIPs, o.Spec.Ports = []string{"192.0.2.2"}, []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 9}}
					c.policy(o)
					v := &Service{spec: s, obj: o}
					s.services = append(s.services, v)
					c.before.node, c.before.at = c.node, func(corev1.IPFamily) netip.Addr { return netip.MustParseAddr("192.0.2.2") }
					v.wrote("a", &written{family: s.Family, endpoints: []Endpoint{c.before}})
					v.wrote("a", &written{family: s.Family})
					ExternalLocal(o)
					v.stands()
					client := s.Outside()
					client.router = &Node{Name: "b", Client: e.nodes[0].Client}
					ask(s, client)
				}}, corev1.IPv4Protocol)
				if r.Result != ResultFail || !strings.Contains(r.Reason, c.reason) || c.reason == late && strings.Contains(r.Reason, never) {
					t.Errorf("%s: %s", r.Result, r.Reason)
				}
			})
		}
	}
}

// Flows that are to cease have when none is answered, however it is told so.
func TestCease(t *testing.T) {
	e, _ := served(t)
	e.cfg.Dir, e.cfg.Limit = "", 300*time.Millisecond
	serving(t, e.nodes[0], remote.UDP)
	for to, want := range map[string]conformance.Result{"192.0.2.2:38081": ResultFail, "192.0.2.2:9": ResultPass} {
		r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) { s.Flows(s.Outside(), UDP(netip.MustParseAddrPort(to)), 2).Cease() }}, corev1.IPv4Protocol)
		if r.Result != want {
			t.Errorf("%s: %s, %s; want %s", to, r.Result, r.Reason, want)
		}
	}
}

// Every port of every server is to answer where that is wanted, and no other.
func TestAtAll(t *testing.T) {
	a, b := Client{Name: "a"}, Client{Name: "b"}
	answer := func(name, at string) remote.Result {
		return remote.Result{Class: remote.OK, Name: name, Dst: netip.MustParseAddrPort(at)}
	}
	all := []remote.Result{answer("a", "10.0.0.1:1"), answer("a", "10.0.0.1:2"), answer("b", "10.0.0.2:1"), answer("b", "10.0.0.2:2")}
	w := Only(a, b).AtAll([]uint16{1, 2}, 4)
	if wrong := w.wrong(&remote.Results{Attempts: all}, nil); wrong != "" {
		t.Error(wrong)
	}
	for i, missing := range all {
		rest := slices.Delete(slices.Clone(all), i, i+1)
		if wrong := w.wrong(&remote.Results{Attempts: rest}, nil); !strings.Contains(wrong, missing.Name+" never answered at its port ") {
			t.Errorf("without %s: %q", missing, wrong)
		}
	}
	often := slices.Concat(all, slices.Repeat(all[:1], 40))
	if wrong := w.wrong(&remote.Results{Attempts: often}, nil); !strings.Contains(wrong, "a at port 1 got 41") {
		t.Errorf("one far more often than the others: %q", wrong)
	}
	if wrong := w.OneWillDo().wrong(&remote.Results{Attempts: often}, nil); wrong != "" {
		t.Errorf("where the client's address decides: %s", wrong)
	}
	if wrong := w.wrong(&remote.Results{Attempts: append(all, answer("b", "10.0.0.2:3"))}, nil); !strings.Contains(wrong, "b answered at its port 3 ") {
		t.Errorf("at a port that is none of them: %q", wrong)
	}
}

// What chance makes is even, what has a bias that one could see in a day's use is not.
func TestUneven(t *testing.T) {
	shares := func(r *rand.Rand, weigh func(int) float64) map[place]int {
		var upTo []float64
		for i := range 264 {
			upTo = append(upTo, weigh(i))
			if i > 0 {
				upTo[i] += upTo[i-1]
			}
		}
		out := map[place]int{}
		for range 6500 {
			at, _ := slices.BinarySearch(upTo, r.Float64()*upTo[263])
			out[place{"pod", uint16(at)}]++
		}
		return out
	}
	for name, biased := range map[string]func(int) float64{
		"half of them twice as much": func(i int) float64 { return float64(1 + i/132) },
		"the last five shares":       func(i int) float64 { return float64(1 + 4*(i/263)) },
		"a quarter of them half":     func(i int) float64 { return []float64{0.5, 1, 1, 1}[i/66] },
	} {
		for seed := range uint64(20) {
			if uneven(shares(rand.New(rand.NewPCG(seed, 1)), biased)) == "" {
				t.Errorf("%s, seed %d: even", name, seed)
			}
		}
	}
	for seed := range uint64(200) {
		if wrong := uneven(shares(rand.New(rand.NewPCG(seed, 1)), func(int) float64 { return 1 })); wrong != "" {
			t.Errorf("chance, seed %d: %s", seed, wrong)
		}
	}
}

func TestAround(t *testing.T) {
	for at, want := range map[string]string{"192.0.2.246": "192.0.2.244/30", "2001:db8::f7": "2001:db8::f4/126"} {
		if got := Around(netip.MustParseAddr(at), 2); got != want {
			t.Errorf("around %s: %s, want %s", at, got, want)
		}
	}
}

// What held is asked again when the behaviour is over, unless something has changed since, and
// what is wrong then once more.
func TestAgain(t *testing.T) {
	for name, c := range map[string]struct {
		right  string // + or - of each answer that is looked at; the last goes on
		after  func(*Spec)
		result conformance.Result
	}{
		"goes on":           {"+", func(*Spec) {}, ResultPass},
		"falls back":        {"+-", func(*Spec) {}, ResultFail},
		"is lost once":      {"+-+", func(*Spec) {}, ResultPass},
		"changed meanwhile": {"+-", (*Spec).changed, ResultPass},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := served(t)
			e.cfg.Dir, e.cfg.Limit = "", time.Minute
			looked := 0
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				w := Only(b).Times(1)
				w.class = func(remote.Result) bool {
					i := min(looked, len(c.right)-1)
					looked++
					return c.right[i] == '+'
				}
				s.Expect(s.Outside(), TCP(netip.MustParseAddrPort("192.0.2.2:38081")), w)
				c.after(s)
			}}, corev1.IPv4Protocol)
			if r.Result != c.result || r.Result == ResultFail && !strings.Contains(r.Reason, "when the behaviour was over did not") {
				t.Errorf("looked %d times, %s: %s", looked, r.Result, r.Reason)
			}
		})
	}
}

// Over the behaviours every node is the first one, and each run of one seed has the same order.
func TestTurned(t *testing.T) {
	e := &Env{nodes: []*Node{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}}
	first := map[string]int{}
	for i := range 64 {
		id := strings.Repeat("x", i)
		order := e.turned(id)
		if len(order) != 4 || !slices.Equal(order, e.turned(id)) {
			t.Fatalf("%s: %v", id, order)
		}
		first[order[0].Name]++
	}
	if len(first) != 4 || e.nodes[0].Name != "a" {
		t.Errorf("first are %v", first)
	}
}
