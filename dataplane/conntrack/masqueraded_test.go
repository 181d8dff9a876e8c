package conntrack

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Flows that rules masquerade are found by the ports that they have then, of both families; others are
// not, whatever their ports.
func TestMasqueradedBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, v6 := range []bool{false, true} {
		x := byFamily[v6]
		a := ap(x.a, 53)
		w.rules(planOf(front(plan.NodePort, objects.UDP, ap(x.node, 30053), a), front(plan.ClusterIP, objects.UDP, ap(x.vip, 53), a)))
		w.nft(fmt.Sprintf("add chain inet t post { type nat hook postrouting priority srcnat; }; flush chain inet t post; add rule inet t post udp sport 4001 masquerade to :%d", 20001))
		for _, sport := range []uint16{4001, 20003} { // the second keeps its source
			if got := w.ask(w.client, sport, ap(x.node, 30053), "a:53"); got != "a:53" {
				t.Fatalf("answer %q", got)
			}
		}
		find := func(first, last uint16) (out []string) {
			all, err := MasqueradedBy(t.Context(), w.node.FD(), first, last)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range all {
				if m.Source.Addr().Is6() == v6 {
					out = append(out, fmt.Sprintf("%s %s from %s, closing %v", m.Protocol, m.Endpoint, m.Source.Addr(), m.Closing))
				}
			}
			slices.Sort(out)
			return out
		}
		source := map[bool]netip.Addr{false: netip.MustParseAddr("10.244.1.1"), true: netip.MustParseAddr("fd00:10:244:1::1")}[v6]
		if diff := cmp.Diff([]string{fmt.Sprintf("udp %s from %s, closing false", a, source)}, find(20000, 29999)); diff != "" {
			t.Errorf("ip6=%v (-want +got):\n%s", v6, diff)
		}
		if got := find(20002, 29999); len(got) > 0 {
			t.Errorf("ip6=%v: %q have other ports", v6, got)
		}
	}
}

// TCP that one side has ended is said to be closing.
func TestMasqueradedStates(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddrPort
	f := flow{protocol: objects.TCP, src: at("192.0.2.2:4001"), dst: at("10.96.0.1:80"), from: at("10.244.1.2:80"), back: at("10.244.1.1:20000")}
	for state, want := range map[uint8]bool{tcpSynSent: false, tcpEstablished: false, tcpSynSent2: false, 4: true, tcpCloseWait: true, 7: true, 8: true} {
		f.state = state
		if m, ok := f.masqueraded(); !ok || m.Closing != want {
			t.Errorf("state %d: %+v, %v; want closing %v", state, m, ok, want)
		}
	}
	f.back = f.src
	if m, ok := f.masqueraded(); ok {
		t.Errorf("%+v keeps its source", m)
	}
}
