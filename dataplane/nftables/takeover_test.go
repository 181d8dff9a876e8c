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
	t.Parallel()
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")}
	ways := map[string]plan.Node{"networks": {LocalPods: pods}, "links": {LocalLink: "cali*"}, "another link": {LocalLink: "cni0"}}
	for from := range ways {
		for to := range ways {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				ns := netns.ForTest(t, "ways")
				old, new := some(1500, 3, 1), some(500, 3, 2) // many batches, also of what is left over
				old.Node, new.Node = ways[from], ways[to]
				before := newTest(t, ns)
				if err := before.Apply(t.Context(), nil, old); err != nil {
					t.Fatal(err)
				}
				after := newTest(t, ns)
				after.dialled = narrow(t)
				states, both := 0, false
				after.fault = func() error {
					states++
					byNetwork, networks, err := toldApart(t, ns, ways)
					both = both || networks && !byNetwork
					return err
				}
				if err := after.Apply(t.Context(), nil, new); err != nil {
					t.Fatal(err)
				}
				if byNetwork, networks, err := toldApart(t, ns, ways); err != nil || byNetwork != networks || byNetwork != (to == "networks") {
					t.Errorf("told by networks: %t, which are there: %t; %v", byNetwork, networks, err)
				}
				if from == "networks" && to != from && !both {
					t.Error("networks went with the rules that asked for them")
				}
				if states < 5 {
					t.Errorf("%d transactions, too few to see anything between", states)
				}
				wantKernel(t, ns, new)
			})
		}
	}
}

// toldApart tells whether rules tell local pods by networks, and whether these are there. It
// is an error if they do, and are not.
func toldApart(t *testing.T, ns *netns.NS, ways map[string]plan.Node) (byNetwork, networks bool, err error) {
	var said []byte
	err = ns.Do(func() (err error) {
		said, err = exec.CommandContext(t.Context(), "nft", "list", "set", "ip", "plumbline", "local-pods").CombinedOutput()
		return err
	})
	if err != nil {
		return false, false, fmt.Errorf("list local-pods: %w: %s", err, said)
	}
	var rules []byte
	for _, chain := range []string{"prerouting", "postrouting", "to-node"} {
		err := ns.Do(func() error {
			out, err := exec.CommandContext(t.Context(), "nft", "list", "chain", "ip", "plumbline", chain).CombinedOutput()
			rules = append(rules, out...)
			return err
		})
		if err != nil {
			return false, false, fmt.Errorf("list %s: %w: %s", chain, err, rules)
		}
	}
	byNetwork = strings.Contains(string(rules), "@local-pods")
	networks = strings.Contains(string(said), ways["networks"].LocalPods[0].String())
	if byNetwork && !networks {
		err = fmt.Errorf("rules tell local pods by a network that is not there:\n%s%s", said, rules)
	}
	return byNetwork, networks, err
}
