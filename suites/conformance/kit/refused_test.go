package kit

import (
	"context"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/report/conformance"
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
			{time.Second / 2, results(remote.ICMPPort, remote.ICMPPort), time.Second/2 + icmpTick},
			{time.Hour, results(remote.ICMPPort), 0},
			{0, results(remote.ICMPPort, remote.Timeout), 3*time.Second + icmpTick},
			{0, results(remote.ICMPPort), 3*time.Second + icmpTick},
			{2 * time.Second, results(), time.Second + icmpTick},
		} {
			time.Sleep(step.pass)
			a.spent(time.Now(), step.spent)
			if got := a.ready(time.Now()); got != step.ready {
				t.Errorf("%+v: ready in %s", step, got)
			}
		}
	})
}

// Those of an address are its own, whoever dials what from it.
func TestAllowances(t *testing.T) {
	e := &Env{}
	at := func(router, own, source, to string) *allowance {
		c := Client{Name: Outside, router: &Node{Name: router}, addrs: families([]netip.Addr{netip.MustParseAddr(own)})}
		if source != "" {
			c.source = netip.MustParseAddr(source)
		}
		return e.allowance(c, UDP(netip.MustParseAddrPort(to)))
	}
	one := at("node-1", "192.0.2.2", "", "198.51.100.1:53")
	for _, same := range []*allowance{at("node-1", "192.0.2.2", "", "198.51.100.2:80"), at("node-2", "192.0.2.2", "", "198.51.100.1:53"), at("node-1", "192.0.2.6", "192.0.2.2", "198.51.100.1:53")} {
		if one != same {
			t.Error("of the same address it is another")
		}
	}
	for _, other := range []*allowance{at("node-1", "192.0.2.6", "", "198.51.100.1:53"), at("node-1", "192.0.2.2", "192.0.2.6", "198.51.100.1:53"), at("node-1", "192.0.2.2", "", "[2001:db8::1]:53")} {
		if one == other {
			t.Error("of another address or family it is the same")
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

// Where nodes send every ICMP error, each refusal that is left out is missed, and what came late has to go on.
func TestRefusedUnlimited(t *testing.T) {
	need.Program(t, "nft")
	for name, c := range map[string]struct {
		lost   string // of the ICMP errors that node b sends, by their number
		result conformance.Result
		rounds int
		reason string
	}{
		"all come":           {"mod 100 vmap { 99 : drop }", ResultPass, 1, ""},
		"one in 24 is lost":  {"mod 24 vmap { 7 : drop }", ResultFail, 0, "want a refusal within 300ms of the last change, but 24: 23 icmp-port, 1 timeout"},
		"late":               {"mod 1000 vmap { 0-1 : drop }", ResultPass, 2 + confirmations, ""},
		"late, not for long": {"mod 1000 vmap { 0-1 : drop, 100 : drop }", ResultFail, 5, "want a refusal, which held after "},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := served(t)
			e.cfg.Dir = ""
			if strings.HasPrefix(name, "one") {
				e.cfg.Limit = 300 * time.Millisecond
			}
			if err := b.probe.SetPort(t.Context(), remote.Port{Network: remote.UDP, Port: HostPort, Mode: remote.Serving}); err != nil {
				t.Fatal(err)
			}
			e.nodes[0].addrs = families([]netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::2")})
			e.stage = &outfitted{cluster: rooms{nodes: e.nodes}}
			if err := e.unlimit(t.Context()); err != nil {
				t.Fatal(err)
			}
			rules := "table inet lose { chain out { type filter hook output priority 0; icmp type destination-unreachable numgen inc " + c.lost + "; icmpv6 type destination-unreachable numgen inc " + c.lost + "; }; }"
			if _, err := e.stage.Cluster().Exec(t.Context(), "b", "nft", rules); err != nil {
				t.Fatal(err)
			}
			for family, to := range map[corev1.IPFamily]string{corev1.IPv4Protocol: "192.0.2.2:10", corev1.IPv6Protocol: "[2001:db8::2]:10"} {
				r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
					s.Expect(s.Outside(), UDP(netip.MustParseAddrPort(to)), Rejected())
				}}, family)
				if r.Result != c.result || !strings.Contains(r.Reason, c.reason) || c.rounds > 0 && r.Attempts != c.rounds*silentTry {
					t.Errorf("%s: %d attempts, %s: %s", family, r.Attempts, r.Result, r.Reason)
				}
			}
		})
	}
}

// rooms are nodes in whose networks commands are run.
type rooms struct {
	cluster.Cluster
	nodes []*Node
}

func (w rooms) Nodes(context.Context) (out []cluster.Node, err error) {
	for _, n := range w.nodes {
		out = append(out, cluster.Node{Name: n.Name})
	}
	return out, nil
}

func (w rooms) Exec(ctx context.Context, node string, argv ...string) (string, error) {
	i := slices.IndexFunc(w.nodes, func(n *Node) bool { return n.Name == node })
	return "", netns.At(w.nodes[i].NetNS).Do(exec.CommandContext(ctx, argv[0], argv[1:]...).Run)
}

// Where pods refuse, and on clusters of others, ICMP is limited.
func TestScarce(t *testing.T) {
	for _, c := range []struct {
		unlimited bool
		want      Want
		is        bool
	}{{false, Rejected(), true}, {true, Rejected(), false}, {true, Rejected().ByPods(), true}, {true, Dropped(), false}, {false, Dropped(), false}} {
		s := &Spec{env: &Env{unlimited: c.unlimited}}
		if got := s.scarce(c.want); got != c.is {
			t.Errorf("%s by pods %t, unlimited %t: scarce %t", c.want.text, c.want.byPods, c.unlimited, got)
		}
	}
}
