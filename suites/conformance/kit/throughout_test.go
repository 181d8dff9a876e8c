package kit

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/probe/sock"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// servicePort stands for a Service at node b: what b serves there is its dataplane's matter,
// what it serves at HostPort is not.
const servicePort = 9

// served is a run's Env of a node b, which serves HostPort and servicePort, and a client
// outside it.
func served(t *testing.T) (*Env, Client) {
	t.Helper()
	s, client, a := capturing(t)
	e, b := s.env, s.env.nodes[1]
	serving(t, b, remote.TCP)
	place, err := sock.NewPlace(a.Do)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = place.Close() })
	probe, err := remote.Dial(t.Context(), netip.MustParseAddrPort(fmt.Sprintf("192.0.2.2:%d", controlPort)), key(), place.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(probe.Close)
	b.Client = Client{Name: "b", probe: probe, addrs: families([]netip.Addr{netip.MustParseAddr("192.0.2.2")})}
	b.A, b.B = &Pod{}, &Pod{}
	e.nodes, e.outside = []*Node{b}, Client{Name: Outside, probe: client.probe}
	e.client, e.stage = fake.NewClientset(), &backdrop{dir: t.TempDir()}
	mode(t, b.Client, servicePort, remote.Serving)
	return e, b.Client
}

func mode(t *testing.T, c Client, port uint16, m remote.Mode) {
	t.Helper()
	if err := c.probe.SetPort(t.Context(), remote.Port{Network: remote.TCP, Port: port, Mode: m}); err != nil {
		t.Fatal(err)
	}
}

// What fails of a stream is the dataplane's as long as the way past it works meanwhile.
func TestThroughout(t *testing.T) {
	for name, c := range map[string]struct {
		closed []uint16 // for a while in the middle
		result conformance.Result
		reason []string
	}{
		"nothing":                     {nil, ResultPass, nil},
		"of the dataplane":            {[]uint16{servicePort}, ResultFail, []string{"outside to 192.0.2.2:9/tcp: want answers of b alone, but "}},
		"of the network":              {[]uint16{servicePort, HostPort}, ResultInconclusive, []string{"want answers of b alone, but ", "control: outside did not reach b (192.0.2.2:38081/tcp) without a Service then either: "}},
		"of what is not asked itself": {[]uint16{HostPort}, ResultPass, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := served(t)
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				s.Throughout(s.Outside(), TCP(netip.MustParseAddrPort("192.0.2.2:9")), 200, func() {
					s.Pause(atLeast)
					for _, port := range c.closed {
						mode(t, b, port, remote.Closed)
					}
					s.Pause(atLeast)
					for _, port := range c.closed {
						mode(t, b, port, remote.Serving)
					}
				}, b)
			}}, corev1.IPv4Protocol)
			if r.Result != c.result {
				t.Errorf("%s: %s", r.Result, r.Reason)
			}
			for _, want := range c.reason {
				if !strings.Contains(r.Reason, want) {
					t.Errorf("%q is not in %q", want, r.Reason)
				}
			}
			lost := c.reason != nil
			if len(r.Streams) != 1 || (r.Streams[0].Failed > 0) != lost || (len(r.Streams[0].Outages) > 0) != lost || r.Streams[0].Sent < 60 {
				t.Errorf("streams %+v", r.Streams)
			}
		})
	}
}

// What was lost is, though the rest be left for a run by itself, or last longer than the streams; with nothing lost
// nothing is known of the rest.
func TestThroughoutInPart(t *testing.T) {
	const lasts = 2 * atLeast
	for name, c := range map[string]struct {
		lost, apart bool
		then        time.Duration
		result      conformance.Result
		reason      string
	}{
		"as long":             {false, false, 0, ResultPass, ""},
		"longer":              {false, false, lasts, ResultInconclusive, "the streams end after 600ms"},
		"longer, and lost":    {true, false, lasts, ResultFail, "want answers of b alone"},
		"left alone":          {false, true, 0, ResultInconclusive, "it waited 10s"},
		"left alone and lost": {true, true, 0, ResultFail, "want answers of b alone"},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := served(t)
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				loads := []Way{{s.Outside(), TCP(netip.MustParseAddrPort("192.0.2.2:9"))}}
				limit := throughoutLimit
				if c.then > 0 {
					limit = lasts
				}
				s.throughout(loads, 200, limit, func() {
					if c.lost {
						mode(t, b, servicePort, remote.Closed)
						s.Pause(atLeast / 3)
						mode(t, b, servicePort, remote.Serving)
					}
					s.Pause(c.then)
					if c.apart {
						s.waited(waitForOther + 1)
					}
				}, []Client{b})
			}}, corev1.IPv4Protocol)
			if r.Result != c.result || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%s: %s", r.Result, r.Reason)
			}
		})
	}
}

// A stream is reported too if what was done beside it failed.
func TestThroughoutOfFailure(t *testing.T) {
	e, b := served(t)
	r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
		s.Throughout(s.Outside(), TCP(netip.MustParseAddrPort("192.0.2.2:9")), 200, func() {
			s.Pause(atLeast)
			s.Fail("not followed")
		}, b)
	}}, corev1.IPv4Protocol)
	if r.Result != ResultFail || r.Reason != "not followed" || len(r.Streams) != 1 || r.Streams[0].Sent == 0 {
		t.Errorf("%s: %s, streams %+v", r.Result, r.Reason, r.Streams)
	}
}

// attempts are answered by b (.), by nobody (x) or by a stranger (s), 10 ms apart.
func attempts(pattern string) *remote.Results {
	res := &remote.Results{}
	for i, c := range pattern {
		r := remote.Result{At: 1e9 + int64(i)*1e7, Latency: time.Duration(i+1) * time.Millisecond, Class: remote.OK, Name: "b"}
		switch c {
		case 'x':
			r.Class, r.Name = remote.Timeout, ""
		case 's':
			r.Name = "stranger"
		}
		res.Attempts = append(res.Attempts, r)
	}
	return res
}

func TestMeasured(t *testing.T) {
	const ms = time.Millisecond
	at := way{from: Client{Name: "c"}, at: TCP(netip.MustParseAddrPort("192.0.2.2:9"))}
	for pattern, want := range map[string]Stream{
		"":       {},
		"....":   {Sent: 4, P50: 2 * ms, P99: 3 * ms, Max: 4 * ms},
		".xx.s.": {Sent: 6, Failed: 3, Outages: []Outage{{10 * ms, 20 * ms, 2}, {40 * ms, 10 * ms, 1}}, P50: 4 * ms, P99: 4 * ms, Max: 6 * ms},
		"x..":    {Sent: 3, Failed: 1, Outages: []Outage{{0, 10 * ms, 1}}, P50: 2 * ms, P99: 2 * ms, Max: 3 * ms},
		".xx":    {Sent: 3, Failed: 2, Outages: []Outage{{10 * ms, 13 * ms, 2}}, P50: ms, P99: ms, Max: ms},
		"xx":     {Sent: 2, Failed: 2, Outages: []Outage{{0, 12 * ms, 2}}},
	} {
		want.Client, want.Target, want.Rate = "c", "192.0.2.2:9/tcp", 100
		got := (&stream{way: at, rate: 100, res: attempts(pattern)}).measured([]Client{{Name: "b"}})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", pattern, diff)
		}
	}
}

// A control that failed at another time excuses nothing.
func TestFailedBeside(t *testing.T) {
	began := time.Now()
	load := &stream{began: began, res: attempts("..xx..")}
	for name, c := range map[string]struct {
		began   time.Time
		pattern string
		want    bool
	}{
		"works":           {began, "......", false},
		"fails then too":  {began, "...x..", true},
		"failed before":   {began.Add(-2 * time.Second), "x.....", false},
		"failed just now": {began.Add(-900 * time.Millisecond), "x.....", true},
		"fails later":     {began.Add(2 * time.Second), "x.....", false},
	} {
		if got := (&stream{began: c.began, res: attempts(c.pattern)}).failedBeside(load, Only(Client{Name: "b"})); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Of a dataplane that chooses by the client's address one server may answer all of a stream.
func TestThroughoutByAddress(t *testing.T) {
	for _, declared := range []bool{false, true} {
		e, b := served(t)
		if declared {
			e.cfg.Features = map[Feature]string{FeatureSpread: "by the client's address"}
		}
		r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
			s.throughout([]Way{{s.Outside(), TCP(netip.MustParseAddrPort("192.0.2.2:9"))}}, 200, throughoutLimit, func() {}, []Client{b, {Name: "other"}})
		}}, corev1.IPv4Protocol)
		if passed := r.Result == ResultPass; passed != declared {
			t.Errorf("declared %t: %s: %s", declared, r.Result, r.Reason)
		}
	}
}
