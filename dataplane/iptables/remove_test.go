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

// restore writes rules in a namespace, save is all there is without the counters.
func restore(t *testing.T, ns *netns.NS, program, rules string) {
	t.Helper()
	err := ns.Do(func() error {
		cmd := exec.CommandContext(t.Context(), program+"-restore")
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
				if err := iptables.Remove(ns.FD(), mine, asks); err != nil {
					t.Errorf("where there is nothing: %v", err)
				}
				restore(t, ns, program, fmt.Sprintf(theirs, ""))
				if err := iptables.Remove(ns.FD(), mine, asks); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(sections(foreign+"\n"+filter), sections(save(t, ns, program))); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
				restore(t, ns, program, fmt.Sprintf(theirs, "-A OTHER -j THEIRS-MARK"))
				err := iptables.Remove(ns.FD(), mine, asks)
				if err == nil || !strings.Contains(err.Error(), "table nat: chain THEIRS-MARK stays, since chain OTHER uses it") {
					t.Errorf("what is in use elsewhere is not named: %v", err)
				}
				left := save(t, ns, program)
				for text, want := range map[string]bool{
					"-A OTHER -j THEIRS-MARK": true, "-A THEIRS-MARK -j MARK": true, "-j THEIRS-POST": true, "-A THEIRS-POST -m mark": true,
					"THEIRS-B": false, "-j THEIRS-A\n": false, ":THEIRS-A": false, "THEIRS-F": false,
				} {
					if strings.Contains(left, text) != want {
						t.Errorf("%q is there: %t, want %t\n%s", text, !want, want, left)
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
