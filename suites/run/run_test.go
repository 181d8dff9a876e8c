package run

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

// logged is a load balancer that only has a profile and a log.
type logged struct {
	LB
	events []record.Event
}

func (l logged) Events() ([]record.Event, error) { return l.events, nil }
func (logged) Front() Front                      { return OurLB }
func (logged) Profile() report.LB                { return report.LB{Interval: report.Duration(2 * time.Second)} }

type onlyLB struct {
	Stage
	lb LB
}

func (s onlyLB) LB() LB { return s.lb }

// A rollout's records begin with the state each server was in, and hold nothing
// of other load balancers or of later rollouts.
func TestLBEventsBeginWithTheStateAtTheStart(t *testing.T) {
	server := func(at int64, lb, node, state string) record.Event {
		return record.Event{At: at, Kind: record.KindServer, LB: lb, Node: node, State: state}
	}
	const us = "plumbline-test/echo"
	log := []record.Event{
		server(1, us, "w1", "UP"), server(2, us, "w2", "DOWN"), server(3, us, "w1", "DOWN"), server(4, us, "w2", "UP"), server(5, "x/y", "w1", "UP"),
		server(11, us, "w1", "UP"), server(12, "x/y", "w2", "DOWN"), server(30, us, "w2", "DOWN"),
	}
	lb := &logged{events: log[:6]}
	f := &follower{lb: lb, name: us, from: 10}
	for _, want := range [][]record.Event{
		{server(10, us, "w1", "DOWN"), server(10, us, "w2", "UP"), server(11, us, "w1", "UP")},
		nil,
		{server(30, us, "w2", "DOWN")},
	} {
		got, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if want == nil {
			lb.events = log
		}
	}
}

// Phases are spread evenly over the rollouts that are wanted, are the same for the same seed, and
// are below an interval also in repeats.
func TestPhase(t *testing.T) {
	const wanted = 10
	at := func(seed uint64) *play {
		return &play{runner: &runner{stage: onlyLB{lb: logged{}}, Run: scenario.Run{Seed: seed}}, params: scenario.Params{Rollouts: wanted}}
	}
	p, other := at(1), at(2)
	parts := map[time.Duration]bool{}
	differ := false
	for n := 1; n <= wanted+3; n++ {
		phase := p.phase(n)
		if phase < 0 || phase >= 2*time.Second || phase != at(1).phase(n) {
			t.Errorf("phase of rollout %d: %s", n, phase)
		}
		differ = differ || phase != other.phase(n)
		if n <= wanted {
			parts[phase/(2*time.Second/wanted)] = true
		}
	}
	if len(parts) != wanted || !differ {
		t.Errorf("%d rollouts are in %d parts of the interval; other with another seed: %t", wanted, len(parts), differ)
	}
}

func TestSequence(t *testing.T) {
	got := sequence(verdict.Series{Points: []verdict.Point{
		{T: -1, Class: verdict.OK, Pod: "old"},
		{T: 0.5, Class: verdict.RespTimeout, Node: "w1"},
		{T: 1.5, Class: verdict.OKSlow, Pod: "new", Took: 0.4},
		{T: 2.5, Class: verdict.DialRefused},
	}})
	want := "   -1.0 s  old\n   +0.5 s  -- resp_timeout (load balancer sent it to w1)\n   +1.5 s  new (slow: 0.40 s)\n   +2.5 s  -- dial_refused\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sequence (-want +got):\n%s", diff)
	}
}

// In a cluster of two families each has its stream, and a rollout that does not count for one
// of them counts for neither.
func TestStreamsOfTwoFamilies(t *testing.T) {
	ingress := func(ips ...string) (out []corev1.LoadBalancerIngress) {
		for _, ip := range ips {
			out = append(out, corev1.LoadBalancerIngress{IP: ip})
		}
		return out
	}
	one, err := targets(ingress("10.0.0.1"))
	if err != nil || len(one) != 1 || one[0].Stream != (tape.Stream{Name: record.Main}) {
		t.Errorf("one family: %+v, %v", one, err)
	}
	two, err := targets(ingress("fd00::1", "10.0.0.1"))
	want := []tape.Stream{{Name: record.Main, Family: record.IPv6}, {Name: record.Second, Family: record.IPv4}}
	if err != nil || len(two) != 2 || two[0].Stream != want[0] || two[1].Stream != want[1] {
		t.Errorf("two families: %+v, %v", two, err)
	}
	if _, err := targets(ingress("10.0.0.1", "10.0.0.2")); err == nil {
		t.Error("two addresses of one family")
	}
	p := &play{targets: two}
	rows := p.perStream(report.Row{Name: "x", Records: "01-x"})
	if len(rows) != 2 || rows[0].Name != "x" || rows[1].Name != "x, IPv4" || rows[1].Stream != record.Second || rows[1].Records != "01-x" {
		t.Errorf("rows %+v", rows)
	}
	all := []verdict.Rollout{{Valid: true, Lost: 7}, {Reasons: []string{"late"}}}
	if why := spoiled(all); why != "late" || all[0].Valid || len(all[0].Reasons) != 1 || all[0].Lost != 7 {
		t.Errorf("spoiled for %q: %+v", why, all)
	}
	if all := []verdict.Rollout{{Valid: true}, {Valid: true}}; spoiled(all) != "" || !all[0].Valid {
		t.Error("two that count")
	}
}

// A balancer's servers have a state in each family at the start of a rollout.
func TestLBEventsOfTwoFamilies(t *testing.T) {
	server := func(at int64, state string, f record.Family) record.Event {
		return record.Event{At: at, Kind: record.KindServer, LB: "ns/echo", Node: "n1", State: state, Family: f}
	}
	f := &follower{
		lb:   logged{events: []record.Event{server(1, "UP", record.IPv4), server(2, "DOWN", record.IPv6), server(15, "UP", record.IPv6)}},
		name: "ns/echo", from: 10,
	}
	got, err := f.next()
	want := []record.Event{server(10, "UP", record.IPv4), server(10, "DOWN", record.IPv6), server(15, "UP", record.IPv6)}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Packets are kept of connections behind clients that were not answered at once.
func TestTroubledSides(t *testing.T) {
	at := netip.MustParseAddrPort
	var late troubled
	good := record.Attempt{Src: at("10.0.0.1:1"), BodyOK: true, End: int64(199 * time.Millisecond)}
	slow, failed := good, good
	slow.Src, slow.End = at("10.0.0.1:2"), int64(200*time.Millisecond)
	failed.Src, failed.Failure, failed.BodyOK = at("10.0.0.1:3"), record.FailEOF, false
	for _, a := range []record.Attempt{good, slow, failed} {
		late.add(a)
	}
	got := late.sides([]record.Conn{
		{Client: good.Src, Source: at("10.0.0.9:1")}, {Client: slow.Src, Source: at("10.0.0.9:2")}, {Client: failed.Src, Source: at("10.0.0.9:3")}, {Client: failed.Src},
	})
	if want := map[netip.AddrPort]bool{at("10.0.0.9:2"): true, at("10.0.0.9:3"): true}; !maps.Equal(got, want) {
		t.Errorf("sides %v, want %v", got, want)
	}
}
