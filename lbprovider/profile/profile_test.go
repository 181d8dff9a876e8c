package profile

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct{ name, says string }{
		"l4-strict":                                {"l4-strict", "l4-strict: check inter 2s fall 3 rise 1 timeout 2s, connect 5s, retries 0, no redispatch, roundrobin, drain 5m0s, ipMode Proxy"},
		"seed":                                     {"seed", "seed: check inter 5s fall 3 rise 1, connect 5s, retries default (3), no redispatch, roundrobin, drain 5m0s, ipMode Proxy"},
		"l4-strict,fall=2,interval=1s":             {"l4-strict,interval=1s,fall=2", "check inter 1s fall 2 rise 1 timeout 2s"},
		"l4-fast,down=4s,fast=500ms,retries=1":     {"l4-fast,fast=500ms,down=4s,retries=1", "check inter 1s fastinter 500ms downinter 4s fall 3 rise 1 timeout 1s, connect 5s, retries 1"},
		"l4-fast,timeout=2s,rise=2,drain=0s":       {"l4-fast,rise=2,timeout=2s,drain=0s", "drain 0s"},
		"l4-fast,connect=1500ms,idle=1m":           {"l4-fast,connect=1.5s,idle=1m0s", "connect 1.5s"},
		"l4-strict,interval=1s,fall=2,rise=1":      {"l4-strict,interval=1s,fall=2,rise=1", "fall 2 rise 1"},
		"l4-strict,interval=1s,fall=2,interval=2s": {"", "interval is given twice"},
		"l5":                         {"", `unknown load balancer profile "l5"; known: l4-fast, l4-strict, seed; with values of its own: l4-strict,interval=1s,fall=2 (interval, fast, down, fall, rise, timeout, connect, idle, retries, drain)`},
		"":                           {"", `unknown load balancer profile ""`},
		"l4-strict,":                 {"", `there is no value ""`},
		"l4-strict,fal=2":            {"", `there is no value "fal"; known:`},
		"l4-strict,fall=0":           {"", "fall=0: give a number from 1 to 1000"},
		"l4-strict,fall=two":         {"", "fall=two: give a number from 1 to 1000"},
		"l4-strict,interval=1":       {"", "interval=1: give a duration from 10ms to 24h0m0s in whole milliseconds"},
		"l4-strict,interval=10500us": {"", "interval=10500us: give a duration from 10ms to 24h0m0s in whole milliseconds"},
		"l4-strict,interval=9ms":     {"", "interval=9ms: give a duration from 10ms"},
		"l4-strict,interval=25h":     {"", "interval=25h: give a duration from 10ms to 24h0m0s"},
		"l4-strict,interval":         {"", "interval=: give a duration"},
		"l4-strict,drain=-1s":        {"", "drain=-1s: give a duration from 0s"},
	} {
		p, err := Parse(text)
		switch {
		case want.name == "" && (err == nil || !strings.Contains(err.Error(), want.says) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%q: %v, want %q", text, err, want.says)
		case want.name != "" && (err != nil || p.Name != want.name || !strings.Contains(p.String(), want.says)):
			t.Errorf("%q: %v, %q, %q; want %q, %q", text, err, p.Name, p, want.name, want.says)
		}
		if err != nil {
			continue
		}
		if again, err := Parse(p.Name); err != nil || again != p {
			t.Errorf("%q is read again as %+v, %v", p.Name, again, err)
		}
	}
}

func TestRisen(t *testing.T) {
	for text, want := range map[string]time.Duration{"l4-fast": 3 * time.Second, "l4-fast,rise=3": 5 * time.Second, "l4-fast,rise=2,down=4s": 13 * time.Second, "l4-fast,rise=2,fast=3s": 6 * time.Second} {
		p, err := Parse(text)
		if got := p.Risen(); err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", text, got, want, err)
		}
	}
}

// A server begins DOWN, so that its first result may take as long as one that is.
func TestFirstRound(t *testing.T) {
	for text, want := range map[string]time.Duration{"l4-strict": 6 * time.Second, "l4-fast,down=4s": 9 * time.Second, "seed": 15 * time.Second} {
		p, err := Parse(text)
		if got := p.FirstRound(); err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", text, got, want, err)
		}
	}
}
