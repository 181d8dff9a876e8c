package main

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

func TestNext(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.244.0.0/16": "10.245.0.0", "10.255.0.0/16": "11.0.0.0", "172.28.0.2/32": "172.28.0.3",
		"10.244.3.255/32": "10.244.4.0", "fd00:10:244::/56": "fd00:10:244:100::", "255.0.0.0/8": "0.0.0.0",
	} {
		got, _ := netip.AddrFromSlice(next(netip.MustParsePrefix(prefix)))
		if got.String() != want {
			t.Errorf("after %s: %s, want %s", prefix, got, want)
		}
	}
}

func TestConf(t *testing.T) {
	conf, err := renderConf([]netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"type": "ptp"`, `"subnet": "10.244.1.0/24"`, `"subnet": "fd00:10:244:1::/64"`, `"dst": "0.0.0.0/0"`, `"dst": "::/0"`} {
		if !strings.Contains(conf, want) {
			t.Errorf("configuration lacks %s:\n%s", want, conf)
		}
	}
}

// Applied twice, with a node's address inside a wider internal range: the
// kernel refuses overlapping intervals.
func TestMasqueradeRules(t *testing.T) {
	need.Program(t, "nft")
	ns := netns.ForTest(t, "cni")
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")}
	internal := append(pods, netip.MustParsePrefix("172.28.0.2/32"), netip.MustParsePrefix("172.28.0.3/32"), netip.MustParsePrefix("10.244.0.9/32"))
	var out []byte
	err := ns.Do(func() (err error) {
		for range 2 {
			if err := masquerade(pods, internal); err != nil {
				return err
			}
		}
		out, err = exec.Command("nft", "list", "ruleset").CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"ip saddr @pods ip daddr != @internal masquerade", "ip6 saddr @pods ip6 daddr != @internal masquerade", "172.28.0.2", "172.28.0.3", "10.244.0.0/16"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("rules lack %q:\n%s", want, out)
		}
	}
}
