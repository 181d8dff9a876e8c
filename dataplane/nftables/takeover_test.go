package nftables

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// An agent that tells local pods in another way than the one before takes its rules over in many
// transactions, and in none of the states between do rules ask for what is not there: they would
// take the node's own pods for strangers, and masquerade them.
func TestOtherWayToTellLocalPods(t *testing.T) {
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")}
	ways := map[string]plan.Node{"networks": {LocalPods: pods}, "links": {LocalLink: "cali*"}, "another link": {LocalLink: "cni0"}}
	for from := range ways {
		for to := range ways {
			t.Run(from+" to "+to, func(t *testing.T) {
				ns := netns.ForTest(t, "ways")
				old, new := some(1500, 3, 1), some(500, 3, 2) // many batches, also of what is left over
				old.Node, new.Node = ways[from], ways[to]
				before := newTest(t, ns)
				if err := before.Apply(t.Context(), nil, old); err != nil {
					t.Fatal(err)
				}
				after := newTest(t, ns)
				after.dialled = narrow(t)
				states := 0
				after.fault = func() error {
					states++
					return toldApart(t, ns, ways)
				}
				if err := after.Apply(t.Context(), nil, new); err != nil {
					t.Fatal(err)
				}
				if err := toldApart(t, ns, ways); err != nil {
					t.Error(err)
				}
				if states < 5 {
					t.Errorf("%d transactions, too few to see anything between", states)
				}
				wantKernel(t, ns, new)
			})
		}
	}
}

// toldApart is an error if a rule tells local pods by networks that are not there.
func toldApart(t *testing.T, ns *netns.NS, ways map[string]plan.Node) error {
	var said []byte
	err := ns.Do(func() (err error) {
		said, err = exec.CommandContext(t.Context(), "nft", "list", "set", "ip", "plumbline", "local-pods").CombinedOutput()
		return err
	})
	if err != nil {
		return fmt.Errorf("list local-pods: %w: %s", err, said)
	}
	var rules []byte
	for _, chain := range []string{"prerouting", "postrouting", "to-node"} {
		err := ns.Do(func() error {
			out, err := exec.CommandContext(t.Context(), "nft", "list", "chain", "ip", "plumbline", chain).CombinedOutput()
			rules = append(rules, out...)
			return err
		})
		if err != nil {
			return fmt.Errorf("list %s: %w: %s", chain, err, rules)
		}
	}
	if byNetwork := strings.Contains(string(rules), "@local-pods"); byNetwork && !strings.Contains(string(said), ways["networks"].LocalPods[0].String()) {
		return fmt.Errorf("rules tell local pods by a network that is not there:\n%s%s", said, rules)
	}
	return nil
}
