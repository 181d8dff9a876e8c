package main

import (
	"net/netip"
	"strings"
	"testing"
)

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
