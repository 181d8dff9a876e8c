package kit

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

func results(classes ...remote.Class) *remote.Results {
	res := &remote.Results{}
	for _, c := range classes {
		res.Attempts = append(res.Attempts, remote.Result{Class: c})
	}
	return res
}

// A refusal is what a host says of a port, not what a router says, and one of an attempt excuses no
// silence at others.
func TestRejected(t *testing.T) {
	for _, c := range []remote.Class{
		remote.OK, remote.Reset, remote.EOF, remote.Timeout, remote.ICMPHost, remote.ICMPNet,
		remote.ICMPAdmin, remote.ICMPProto, remote.ICMPOther, remote.Denied, remote.NoRoute,
	} {
		if Rejected().wrong(results(c), nil) == "" {
			t.Errorf("%s is taken for a refusal", c)
		}
		if Rejected().wrong(results(remote.ICMPPort, remote.Refused, c), nil) == "" {
			t.Errorf("%s beside refusals is taken for one", c)
		}
	}
	for _, c := range []remote.Class{remote.Refused, remote.ICMPPort} {
		if wrong := Rejected().wrong(results(c, c), nil); wrong != "" {
			t.Errorf("%s: %s", c, wrong)
		}
	}
}

// Six ICMP errors may come at once, and one a second; three are asked for. Where silence was beside some, none is left.
func TestAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &allowance{}
		for _, step := range []struct {
			pass  time.Duration
			spent *remote.Results
			ready time.Duration
		}{
			{0, results(), 0},
			{0, results(remote.Refused, remote.Timeout), 0},
			{0, results(remote.ICMPPort, remote.ICMPPort, remote.OK), 0},
			{time.Second / 2, results(remote.ICMPPort, remote.ICMPPort), time.Second / 2},
			{time.Hour, results(remote.ICMPPort), 0},
			{0, results(remote.ICMPPort, remote.Timeout), 3 * time.Second},
			{0, results(remote.ICMPPort), 3 * time.Second},
			{2 * time.Second, results(), time.Second},
		} {
			time.Sleep(step.pass)
			a.spent(time.Now(), step.spent)
			if got := a.ready(time.Now()); got != step.ready {
				t.Errorf("%+v: ready in %s", step, got)
			}
		}
	})
}

// Those of a client are its own, and of a family.
func TestAllowances(t *testing.T) {
	e := &Env{}
	at := func(router, own, to string) *allowance {
		return e.allowance(Client{Name: Outside, router: &Node{Name: router}, addrs: families([]netip.Addr{netip.MustParseAddr(own)})}, UDP(netip.MustParseAddrPort(to)))
	}
	one := at("node-1", "192.0.2.2", "198.51.100.1:53")
	if one != at("node-1", "192.0.2.2", "198.51.100.2:80") {
		t.Error("of another target it is another")
	}
	for _, other := range []*allowance{at("node-2", "192.0.2.2", "198.51.100.1:53"), at("node-1", "192.0.2.6", "198.51.100.1:53"), at("node-1", "192.0.2.2", "[2001:db8::1]:53")} {
		if one == other {
			t.Error("of another client or family it is the same")
		}
	}
}

// Refusals of a real kernel: all of them are seen, however many were asked for before; by ICMP no more than it
// allows at once, by a reset all that are wanted.
func TestRefusedByKernel(t *testing.T) {
	const nobody = 10 // no port of b's
	for network, attempts := range map[remote.Network]int{remote.UDP: 3 * icmpTries, remote.TCP: 3 * silentTry} {
		t.Run(string(network), func(t *testing.T) {
			e, b := served(t)
			e.cfg.Dir, e.cfg.Limit = "", 100*time.Millisecond // one round is to do
			if err := b.probe.SetPort(t.Context(), remote.Port{Network: remote.UDP, Port: HostPort, Mode: remote.Serving}); err != nil {
				t.Fatal(err)
			}
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				for range 3 {
					s.changed()
					s.Expect(s.Outside(), Target{network, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.2"), nobody)}, Rejected())
				}
				if s.attempts != attempts {
					t.Errorf("%d attempts, want %d", s.attempts, attempts)
				}
			}}, corev1.IPv4Protocol)
			if r.Result != ResultPass {
				t.Errorf("%s: %s", r.Result, r.Reason)
			}
		})
	}
}

// Where ICMP refuses some and is silent to others, that is no refusal, but may become one.
func TestLimited(t *testing.T) {
	for _, c := range []struct {
		want Want
		res  *remote.Results
		is   bool
	}{
		{Rejected(), results(remote.ICMPPort, remote.Timeout), true},
		{Rejected(), results(remote.ICMPPort), true},
		{Rejected(), results(remote.Timeout), false},
		{Rejected(), results(remote.Refused, remote.Timeout), false},
		{Rejected(), results(remote.ICMPPort, remote.Timeout, remote.OK), false},
		{Dropped(), results(remote.ICMPPort, remote.Timeout), false},
	} {
		if got := c.want.limited(c.res); got != c.is {
			t.Errorf("%s, %s: limited %t", c.want.text, c.res.Summary(), got)
		}
	}
}
