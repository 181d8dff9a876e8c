package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/suites/row"
)

func entry(name string) Entry {
	return Entry{Name: name, Rows: row.Default(), Profile: "l4-strict", Defaults: Params{Rollouts: 3, Rate: 100, Timeout: time.Second, Delay: 12 * time.Second}}
}

func TestValidateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		mutate func(*Run, *Params)
		want   string
	}{
		{"no scenarios", func(r *Run, _ *Params) { r.Scenarios = nil }, "no scenarios"},
		{"no rows", func(r *Run, _ *Params) { r.Rows = nil }, "no rows"},
		{"negative budget", func(r *Run, _ *Params) { r.MaxLost = -1 }, "-1 lost requests"},
		{"Services of nothing", func(r *Run, _ *Params) { r.Background.Services = 1 }, "need background pods"},
		{"no rollouts", func(_ *Run, p *Params) { p.Rollouts = 0 }, "scenario a: 0 rollouts"},
		{"patience beyond the probe's", func(_ *Run, p *Params) { p.Timeout = time.Minute }, "timeout 1m0s"},
		{"negative delay", func(_ *Run, p *Params) { p.Delay = -1 }, "not be negative"},
		{"a fault for long", func(_ *Run, p *Params) { p.Hold = time.Hour }, "at most 10m"},
		{"odd preStop", func(_ *Run, p *Params) { p.PreStop = 1500 * time.Millisecond }, "whole seconds"},
		{"killed before told", func(_ *Run, p *Params) { p.Grace, p.PreStop = 5*time.Second, 6*time.Second }, "grace 5s is shorter than preStop 6s"},
	} {
		r, err := Plan(nil, "", entry("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		tc.mutate(&r, &r.Scenarios[0].Params)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// Scenarios that are for other rows or profiles are run together only if these are given.
func TestPlanAgrees(t *testing.T) {
	a, b := entry("a"), entry("b")
	b.Rows = row.Default()[:1]
	if _, err := Plan(nil, "", a, b); err == nil || !strings.Contains(err.Error(), "scenarios a and b are for other dataplanes") {
		t.Errorf("other rows: %v", err)
	}
	if r, err := Plan(b.Rows, "", a, b); err != nil || len(r.Rows) != 1 || len(r.Scenarios) != 2 || r.Scenarios[1].Params != b.Defaults {
		t.Errorf("rows that are given: %v, %v", r.Rows, err)
	}
	b = entry("b")
	b.Profile = "seed"
	if _, err := Plan(nil, "", a, b); err == nil || !strings.Contains(err.Error(), "profiles l4-strict and seed: give one with --profile") {
		t.Errorf("other profiles: %v", err)
	}
	if r, err := Plan(nil, "l4-fast", a, b); err != nil || r.Profile != "l4-fast" {
		t.Errorf("a profile that is given: %s, %v", r.Profile, err)
	}
}

func TestFlags(t *testing.T) {
	r, err := Plan(nil, "", entry("a"))
	if err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	r.Flags(fs)
	r.Scenarios[0].Params.Flags(fs)
	if err := fs.Parse([]string{"--seed=7", "--max-lost=2", "--delay=3s", "--hold=4s", "--rollouts=9", "--background-pods=10"}); err != nil {
		t.Fatal(err)
	}
	p := r.Scenarios[0].Params
	if r.Seed != 7 || r.MaxLost != 2 || p.Delay != 3*time.Second || p.Hold != 4*time.Second || p.Rollouts != 9 || r.Background.Pods != 10 {
		t.Errorf("%+v", r)
	}
	if p.GraceSeconds() != 13*time.Second {
		t.Errorf("grace %s", p.GraceSeconds())
	}
}
