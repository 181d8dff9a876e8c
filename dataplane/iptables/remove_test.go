package iptables_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// restore writes the rules of a namespace, save is all there is without the counters.
func restore(t *testing.T, ns *netns.NS, program, rules string) {
	t.Helper()
	write(t, ns, rules, program+"-restore")
}

func restoreMore(t *testing.T, ns *netns.NS, program, rules string) {
	t.Helper()
	write(t, ns, rules, program+"-restore", "--noflush")
}

func write(t *testing.T, ns *netns.NS, rules string, argv ...string) {
	t.Helper()
	err := ns.Do(func() error {
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, ns *netns.NS, program string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(run(t, ns, program+"-save")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line, _, _ = strings.Cut(line, " [")
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

// What is theirs goes, with the ways to it; all else stays as it is. What is in use elsewhere
// stays, with all that it needs, and is named.
func TestRemove(t *testing.T) {
	const foreign = `*nat
:PREROUTING ACCEPT
:INPUT ACCEPT
:OUTPUT ACCEPT
:POSTROUTING ACCEPT
:OTHER -
-A PREROUTING -m comment --comment "see -j THEIRS-A below" -j OTHER
-A OTHER -p tcp -m tcp --dport 80 -j RETURN
COMMIT`
	const theirs = `
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:OTHER - [0:0]
:THEIRS-A - [0:0]
:THEIRS-B - [0:0]
:THEIRS-EMPTY - [0:0]
:THEIRS-MARK - [0:0]
:THEIRS-POST - [0:0]
-A PREROUTING -m comment --comment "see -j THEIRS-A below" -j OTHER
-A PREROUTING -m comment --comment "their portals" -j THEIRS-A
-A POSTROUTING -m comment --comment "their \" rules" -j THEIRS-POST
-A OTHER -p tcp -m tcp --dport 80 -j RETURN
%s
-A THEIRS-A -p tcp -m tcp --dport 443 -g THEIRS-B
-A THEIRS-B -j THEIRS-MARK
-A THEIRS-MARK -j MARK --set-xmark 0x4000/0x4000
-A THEIRS-POST -m mark --mark 0x4000/0x4000 -j MASQUERADE
COMMIT
*filter
:THEIRS-F - [0:0]
-A FORWARD -j THEIRS-F
-A THEIRS-F -j ACCEPT
COMMIT
`
	const filter = "*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\nCOMMIT"
	mine := func(_, chain string) bool { return strings.HasPrefix(chain, "THEIRS-") }
	asks := map[string]string{"THEIRS-MARK": "THEIRS-POST"}
	for _, f := range flavours() {
		for _, name := range []string{"iptables-", "ip6tables-"} {
			program := name + string(f)
			t.Run(program, func(t *testing.T) {
				needFlavour(t, f)
				ns := netns.ForTest(t, "remove")
				if stays, err := iptables.Remove(ns.FD(), mine, asks); err != nil || len(stays) > 0 {
					t.Errorf("where there is nothing: %v, %v", stays, err)
				}
				restore(t, ns, program, fmt.Sprintf(theirs, ""))
				if stays, err := iptables.Remove(ns.FD(), mine, asks); err != nil || len(stays) > 0 {
					t.Errorf("%v stay, %v", stays, err)
				}
				if diff := cmp.Diff(sections(foreign+"\n"+filter), sections(save(t, ns, program))); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
				for _, by := range []string{"OTHER", "PREROUTING"} {
					restore(t, ns, program, fmt.Sprintf(theirs, "-A "+by+" -j THEIRS-MARK"))
					stays, err := iptables.Remove(ns.FD(), mine, asks)
					want := []string{"chain THEIRS-MARK of table nat stays, since chain " + by + " uses it (" + string(f) + ", " + map[bool]string{true: "ip6", false: "ip"}[name == "ip6tables-"] + ")"}
					if diff := cmp.Diff(want, stays); diff != "" || err != nil {
						t.Errorf("%v; what is in use elsewhere (-want +named):\n%s", err, diff)
					}
					left := save(t, ns, program)
					for text, want := range map[string]bool{
						"-A " + by + " -j THEIRS-MARK": true, "-A THEIRS-MARK -j MARK": true, "-j THEIRS-POST": true, "-A THEIRS-POST -m mark": true,
						"THEIRS-B": false, "-j THEIRS-A\n": false, ":THEIRS-A": false, "THEIRS-F": false,
					} {
						if strings.Contains(left, text) != want {
							t.Errorf("%q is there: %t, want %t\n%s", text, !want, want, left)
						}
					}
				}
			})
		}
	}
}

// sections are tables in any order.
func sections(text string) map[string]string {
	out := map[string]string{}
	for _, s := range strings.Split(text, "COMMIT") {
		name, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
		if name != "" {
			out[name] = rest
		}
	}
	return out
}

// So many chains that they are taken away in parts: none stays, and nothing else goes.
func TestRemoveMany(t *testing.T) {
	mine := func(_, chain string) bool { return strings.HasPrefix(chain, "THEIRS-") }
	for _, f := range flavours() {
		t.Run(string(f), func(t *testing.T) {
			needFlavour(t, f)
			program := "iptables-" + string(f)
			ns := netns.ForTest(t, "many")
			var b strings.Builder
			const chains = 3000
			for i := range chains {
				fmt.Fprintf(&b, ":THEIRS-%d - [0:0]\n", i)
			}
			for i := range chains / 2 { // that can go when what leads to them is empty
				fmt.Fprintf(&b, "-A THEIRS-%d -j THEIRS-%d\n", chains/2+i, i)
			}
			restore(t, ns, program, "*nat\n:PREROUTING ACCEPT [0:0]\n:OTHER - [0:0]\n-A PREROUTING -j OTHER\n-A OTHER -j RETURN\nCOMMIT\n")
			want := save(t, ns, program)
			restoreMore(t, ns, program, "*nat\n"+b.String()+"-A PREROUTING -j THEIRS-2999\nCOMMIT\n")
			if stays, err := iptables.Remove(ns.FD(), mine, nil); err != nil || len(stays) > 0 {
				t.Errorf("%v stay, %v", stays, err)
			}
			if diff := cmp.Diff(sections(want), sections(save(t, ns, program))); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// A table that the programs leave out, for a rule of nft's own, is named.
func TestRemoveUnseen(t *testing.T) {
	needFlavour(t, iptables.NFT)
	ns := netns.ForTest(t, "unseen")
	mine := func(_, chain string) bool { return strings.HasPrefix(chain, "THEIRS-") }
	restore(t, ns, "iptables-nft", "*nat\n:THEIRS-A - [0:0]\n-A OUTPUT -j THEIRS-A\nCOMMIT\n*filter\n:THEIRS-F - [0:0]\n-A FORWARD -j THEIRS-F\nCOMMIT\n")
	if out := run(t, ns, "nft", "add rule ip nat OUTPUT fib daddr type local counter"); out != "" {
		t.Log(out)
	}
	if saved := run(t, ns, "iptables-nft-save"); strings.Contains(saved, "THEIRS-A") {
		t.Skip("this iptables knows the rule")
	}
	stays, err := iptables.Remove(ns.FD(), mine, nil)
	want := []string{"table nat is left out by iptables-nft-save, for a rule that iptables does not know: chain THEIRS-A stays, and all others there (nft, ip)"}
	if diff := cmp.Diff(want, stays); diff != "" || err != nil {
		t.Errorf("%v; a table that is not seen (-want +named):\n%s", err, diff)
	}
	if left := run(t, ns, "nft", "list chains ip"); strings.Contains(left, "THEIRS-F") || !strings.Contains(left, "THEIRS-A") {
		t.Errorf("left:\n%s", left)
	}
}
