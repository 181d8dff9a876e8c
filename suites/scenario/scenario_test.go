package scenario

import (
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

func TestCatalogIsValid(t *testing.T) {
	for name, s := range catalog() {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.Name != name || s.Title == "" {
			t.Errorf("%s: name %q, title %q", name, s.Name, s.Title)
		}
	}
	if _, err := Find("e9"); err == nil || !strings.Contains(err.Error(), `unknown scenario "e9"; known: e1, e2, e3, rolling-update`) {
		t.Errorf("unknown scenario: %v", err)
	}
}

func TestValidateRefuses(t *testing.T) {
	ok, err := Find("rolling-update")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		mutate func(*Scenario)
		want   string
	}{
		{"no rows", func(s *Scenario) { s.Rows = nil }, "no rows"},
		{"no rollouts", func(s *Scenario) { s.Rollouts = 0 }, "0 rollouts"},
		{"patience beyond the probe's", func(s *Scenario) { s.Timeout = time.Minute }, "timeout 1m0s"},
		{"negative budget", func(s *Scenario) { s.MaxLost = -1 }, "-1 lost requests"},
		{"negative delay", func(s *Scenario) { s.Delay = -1 }, "not be negative"},
		{"odd preStop", func(s *Scenario) { s.PreStop = 1500 * time.Millisecond }, "whole seconds"},
		{"killed before told", func(s *Scenario) { s.Grace, s.PreStop = 5*time.Second, 6*time.Second }, "grace 5s is shorter than preStop 6s"},
	} {
		s := ok
		tc.mutate(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// logged is a load balancer that only has a profile and a log.
type logged struct {
	LB
	events []record.Event
}

func (l logged) Events() ([]record.Event, error) { return l.events, nil }
func (logged) Front() Front                      { return OurLB }
func (logged) Profile() report.LB                { return report.LB{Interval: 2 * time.Second} }

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
	r := &runner{stage: onlyLB{lb: logged{events: log}}, app: workload.Spec{Namespace: "plumbline-test", Name: "echo"},
		nodes: []cluster.Node{{Name: "w1"}, {Name: "w2"}}}
	got, err := r.lbEvents(10, 20)
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Event{server(10, us, "w1", "DOWN"), server(10, us, "w2", "UP"), server(11, us, "w1", "UP")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Phases must not repeat from rollout to rollout, must stay below an interval,
// and must be the same for the same seed.
func TestPhase(t *testing.T) {
	r := &runner{stage: onlyLB{lb: logged{}}, Scenario: Scenario{Seed: 1}}
	seen := map[time.Duration]bool{}
	for row := range 3 {
		for n := range 10 {
			p := r.phase(n, row)
			if p < 0 || p >= 2*time.Second || seen[p] || p != r.phase(n, row) {
				t.Errorf("phase of row %d rollout %d: %s", row, n, p)
			}
			seen[p] = true
		}
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
	r := &runner{targets: two}
	rows := r.perStream(report.Row{Name: "x", Records: "01-x"})
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
	r := &runner{
		stage: onlyLB{lb: logged{events: []record.Event{server(1, "UP", record.IPv4), server(2, "DOWN", record.IPv6), server(15, "UP", record.IPv6)}}},
		app:   workload.Spec{Namespace: "ns", Name: "echo"}, nodes: []cluster.Node{{Name: "n1"}},
	}
	got, err := r.lbEvents(10, 20)
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
