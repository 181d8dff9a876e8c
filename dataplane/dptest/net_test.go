//go:build linux

package dptest

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
)

// The observer is tested with rules written by hand, one for each thing it must
// be able to see.
const ruleset = `
table inet byhand {
	chain services {
		ip daddr 10.96.0.1 tcp dport 80 dnat ip to 10.244.1.2:8080
		ip daddr 10.96.0.1 udp dport 53 dnat ip to 10.244.2.2:1053
		ip daddr 10.96.0.1 sctp dport 7 dnat ip to 10.244.2.2:7000
		ip daddr 10.96.0.2 tcp dport 80 dnat ip to numgen random mod 2 map { 0 : 10.244.1.2, 1 : 10.244.2.2 }
		ip daddr 10.96.0.3 tcp dport 80 dnat ip to jhash ip saddr mod 2 seed 1 map { 0 : 10.244.1.2, 1 : 10.244.2.2 }
		ip daddr 10.96.0.4 tcp dport 80 dnat ip to numgen inc mod 8 map { 0-3 : 10.244.1.2, 4-7 : 10.244.2.2 }
		ip daddr 203.0.113.1 tcp dport 80 dnat ip to 10.244.2.2:8080
		ip6 daddr fd00:10:96::1 tcp dport 80 dnat ip6 to [fd00:10:244:2::2]:8080
		ip6 daddr fd00:10:96::1 udp dport 53 dnat ip6 to [fd00:10:244:1::2]:1053
		ip6 daddr fd00:10:96::1 sctp dport 7 dnat ip6 to [fd00:10:244:1::2]:7000
	}
	chain pre { type nat hook prerouting priority -100; jump services; }
	chain out { type nat hook output priority -100; jump services; }
	chain post {
		type nat hook postrouting priority 100;
		ct original ip daddr 203.0.113.1 masquerade
		meta l4proto sctp ip saddr 10.244.1.6 masquerade
		ip saddr 10.244.1.2 ip daddr 10.244.1.2 masquerade
	}
	chain refusals {
		ip daddr 10.96.0.8 drop
		ip6 daddr fd00:10:96::8 drop
		ip daddr 10.96.0.9 reject
		ip6 daddr fd00:10:96::9 reject
		ip saddr 10.244.1.6 udp dport 9 reject
		# New ones only: a refusal of a later packet waits in the socket as an error, which
		# a dial that looks late takes for its own.
		ip daddr 10.96.0.7 ct state new numgen inc mod 3 == 2 reject
	}
	chain forwarded { type filter hook forward priority 0; jump refusals; }
	chain sent { type filter hook output priority 0; jump refusals; }
}
`

func netByHand(t *testing.T) *Net {
	need.Program(t, "nft")
	n := NewNet(t)
	err := n.Node.Do(func() error {
		cmd := exec.CommandContext(t.Context(), "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(ruleset)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestObserve: each row, and what is found instead; empty where it is right.
func TestObserve(t *testing.T) {
	n := netByHand(t)
	for _, tc := range []struct{ row, found string }{
		{"outside  tcp 10.96.0.1:80 10.244.1.2:8080", ""},
		{"foreign tcp 10.96.0.1:80 10.244.1.2:8080", ""},
		{"node     tcp 10.96.0.1:80 10.244.1.2:8080@node", ""},
		{"remote   tcp 10.96.0.1:80 10.244.1.2:8080", ""},
		{"pod-a    tcp 10.96.0.1:80 10.244.1.2:8080@node", ""},
		{"pod-b    tcp 10.96.0.1:80 10.244.1.2:8080@node", "the kernel did 10.244.1.2:8080"},
		{"outside  tcp 203.0.113.1:80 10.244.2.2:8080@node", ""},
		{"outside  tcp 203.0.113.1:80 10.244.2.2:8080", "the kernel did 10.244.2.2:8080@node"},
		{"outside  tcp 203.0.113.1:81 pass", ""},
		{"outside  udp 10.97.0.1:53 pass", ""},
		{"pod-a    tcp [fd00:10:96::1]:80 [fd00:10:244:2::2]:8080", ""},
		{"foreign udp [fd00:10:96::1]:53 [fd00:10:244:1::2]:1053", ""},
		{"pod-a    udp 10.96.0.1:53 10.244.2.2:1053", ""},
		{"pod-a    tcp 10.96.0.2:80 10.244.1.2:80 10.244.2.2:80", "10.244.1.2:80"}, // its own client, not masqueraded
		{"outside  tcp 10.96.0.2:80 10.244.1.2:80 10.244.2.2:80", ""},
		{"outside  tcp 10.96.0.4:80 10.244.1.2:80", "first \""},
		{"outside  tcp 10.96.0.2:80 sticky 10.244.1.2:80 10.244.2.2:80", "the kernel did sticky 10.244.1.2:80 10.244.2.2:80"},
		{"outside  tcp 10.96.0.3:80 sticky 10.244.1.2:80 10.244.2.2:80", ""},
		{"outside  tcp 10.96.0.3:80 10.244.1.2:80 10.244.2.2:80", "the kernel did 10.244."},
		{"pod-b    tcp 10.96.0.8:80 drop", ""},
		{"pod-b    udp 10.96.0.8:80 reject", "no verdict: control connection"},
		{"pod-a    udp 10.96.0.8:80 drop", ""},
		{"node     udp 10.96.0.8:80 drop", ""},
		{"node     tcp [fd00:10:96::8]:80 drop", ""},
		{"pod-a    udp 10.96.0.8:80 pass", "the kernel did drop"},
		{"pod-b    tcp 10.96.0.9:80 reject", ""},
		{"node     udp 10.96.0.9:80 reject", ""},
		{"pod-a    udp [fd00:10:96::9]:80 reject", ""},
		{"pod-a    udp [fd00:10:96::9]:80 drop", "the kernel did reject"},
		{"pod-a    tcp [fd00:10:96::9]:80 soft-reject", ""},
		{"node     tcp [fd00:10:96::9]:80 soft-reject", ""},
		{"pod-b    tcp 10.96.0.9:80 soft-reject", ""},
		{"pod-a    tcp [fd00:10:96::8]:80 soft-reject", "the kernel did drop"},
		{"pod-a    tcp 10.96.0.7:80 pass", "first \"\", then \"reject\""},
		{"outside  sctp 10.96.0.1:7 10.244.2.2:7000", ""},
		{"pod-b    sctp 10.96.0.1:7 10.244.2.2:7000@node", ""},
		{"node     sctp 10.96.0.1:7 10.244.2.2:7000@node", ""},
		{"outside  sctp 10.96.0.1:7 10.244.2.2:7000@node", "the kernel did 10.244.2.2:7000"},
		{"foreign sctp [fd00:10:96::1]:7 [fd00:10:244:1::2]:7000", ""},
		{"pod-a    sctp 10.96.0.8:7 drop", ""},
		{"pod-a    sctp 10.96.0.9:7 reject", ""},
		{"node     sctp 10.96.0.9:7 reject", ""},
		{"pod-a    sctp [fd00:10:96::9]:7 reject", ""},
		{"pod-a    sctp 10.96.0.10:7 pass", ""},
	} {
		t.Run(tc.row, func(t *testing.T) {
			rows, err := parseRows(tc.row)
			if err != nil {
				t.Fatal(err)
			}
			err = n.Check(t.Context(), &plan.Plan{}, rows, &Memory{})
			if tc.found == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.found) {
				t.Errorf("found %v, want %q", err, tc.found)
			}
		})
	}
}

// What a source with affinity did before counts, over frontends and steps.
func TestMemory(t *testing.T) {
	row := func(line string) Row {
		r, err := parseRow(line)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	went := func(r Row, at string) Row {
		r.Dests = []Dest{{At: netip.MustParseAddrPort(at)}}
		return r
	}
	group := plan.Key{Port: 80}
	var m Memory
	same := row("pod-a tcp 10.96.0.1:80 same 10.0.0.1:80 10.0.0.2:80")
	for i, tc := range []struct {
		row  Row
		at   string
		says string
	}{
		{same, "10.0.0.1:80", "no earlier packet"},
		{same, "10.0.0.1:80", ""},
		{same, "10.0.0.2:80", "and to 10.0.0.1:80 before"},
		{row("pod-a tcp 203.0.113.1:80 10.0.0.3:80"), "10.0.0.3:80", ""},
		{same, "10.0.0.1:80", ""}, // what it had is not among them
		{row("pod-b tcp 10.96.0.1:80 same 10.0.0.1:80"), "10.0.0.1:80", "no earlier packet"},
	} {
		err := m.recall(tc.row, went(tc.row, tc.at), group)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%d: %v, want %q", i, err, tc.says)
		}
	}
}
