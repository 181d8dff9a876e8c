package haproxy

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// As HAProxy 2.6 answers "show sess": a client's, one without a server, the asker's own.
func TestParseSessions(t *testing.T) {
	const answer = `0x5581: proto=tcpv4 src=198.18.0.5:41000 fe=echo-v4 be=echo-v4 srv=node-1 ts=00 epoch=0 age=1m12s calls=3 rate=0 cpu=0 lat=0 rq[f=848202h,i=0,an=00h,rx=,wx=,ax=] rp[f=80048202h,i=0,an=00h,rx=,wx=,ax=] s0=[7,8h,fd=19,ex=] s1=[7,118h,fd=20,ex=] exp=59m
0x5582: proto=tcpv6 src=[::ffff:198.18.0.6]:41001 fe=echo-v4 be=echo-v4 srv=<none> ts=00 epoch=0 age=2s calls=1
0x5583: proto=unix_stream src=unix:1 fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0 age=0s calls=1 rate=0
`
	want := []Session{
		{Client: netip.MustParseAddrPort("198.18.0.5:41000"), Node: "node-1", Age: 72 * time.Second},
		{Client: netip.MustParseAddrPort("198.18.0.6:41001"), Age: 2 * time.Second},
	}
	for age, want := range map[time.Duration][]Session{0: want, 2 * time.Second: want, 3 * time.Second: want[:1], time.Hour: nil} {
		if d := cmp.Diff(want, parseSessions(answer, age), cmpopts.EquateComparable(netip.AddrPort{})); d != "" {
			t.Errorf("of %s and more (-want +got):\n%s", age, d)
		}
	}
}
