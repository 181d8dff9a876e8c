package nftables_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A table whose slots are still in one map each is replaced, and nothing of it
// is left over: the map would cost memory and the time to read it.
func TestSlotsInOneMap(t *testing.T) {
	ns := netns.ForTest(t, "onemap")
	mustNft(t, ns, "add table ip plumbline; add map ip plumbline service-slots { type ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service; };"+
		"add chain ip plumbline services-2; add rule ip plumbline services-2 dnat to ip daddr . meta l4proto . th dport . meta mark map @service-slots;"+
		"add element ip plumbline service-slots { 10.96.0.1 . tcp . 80 . 0 : 10.200.0.1 . 8000 }")
	p := many(3, 2)
	apply(t, newTarget(t, ns), nil, p)
	if diff := cmp.Diff(nftables.Render(p), dump(t, ns)); diff != "" {
		t.Errorf("kernel (-want +got):\n%s", diff)
	}
	if out := mustNft(t, ns, "list", "table", "ip", "plumbline"); strings.Contains(out, "map service-slots {\n\t\ttype ipv4_addr") {
		t.Errorf("the one map is still there:\n%s", out)
	}
}

// The slots are spread over their maps, and one in the wrong map, which no packet
// would find, is seen and taken away by a restart; so is a vmap's element that
// does not return to its caller.
func TestSlotsInParts(t *testing.T) {
	ns := netns.ForTest(t, "parts")
	const services, parts = 400, 8
	p := many(services, 2)
	apply(t, newTarget(t, ns), nil, p)
	for part := range parts {
		out := mustNft(t, ns, "list", "map", "ip", "plumbline", fmt.Sprint("service-slots-", part))
		if n := strings.Count(out, " . 0x00000000 : "); n < services/parts/2 || n > services/parts*2 {
			t.Errorf("part %d has the slots of %d Services of %d", part, n, services)
		}
	}
	intact := ordered(mustNft(t, ns, "list", "ruleset"))
	for _, damage := range []string{
		"add element ip plumbline service-slots-1 { 10.96.0.2 . tcp . 80 . 5 : 10.200.0.1 . 8000 }; add element ip plumbline service-slots-2 { 10.96.0.2 . tcp . 80 . 5 : 10.200.0.1 . 8000 }",
		"delete element ip plumbline service-slots { 3 }; add element ip plumbline service-slots { 3 : goto service-slots-3 }",
		"delete element ip plumbline service-slots { 3 }; add element ip plumbline service-slots { 3 : jump service-slots-4 }",
	} {
		mustNft(t, ns, damage)
		if strings.HasPrefix(damage, "add") && !strings.Contains(dump(t, ns), "ip service-slots-") {
			t.Errorf("%s: the wrong part is not shown", damage)
		}
		apply(t, newTarget(t, ns), nil, p)
		if diff := cmp.Diff(intact, ordered(mustNft(t, ns, "list", "ruleset"))); diff != "" {
			t.Errorf("%s: rule set after a restart (-want +got):\n%s", damage, diff)
		}
	}
}
