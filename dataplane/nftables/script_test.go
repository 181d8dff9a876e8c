package nftables_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// nft takes the script of every kind of frontend, and of every case.
func TestScriptIsTaken(t *testing.T) {
	ns := netns.ForTest(t, "script")
	check := func(name string, p *plan.Plan) {
		file := filepath.Join(t.TempDir(), "script.nft")
		if err := os.WriteFile(file, []byte(nftables.Script(p)), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := nft(t, ns, "-c", "-f", file); err != nil {
			t.Errorf("%s: %v\n%.2000s", name, err, out)
		}
	}
	check("every kind", everyKind())
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	check("all cases at once", dptest.AtOnce(all))
}

// The words for rules are those that nft itself has for what Apply makes (testdata/ruleset.nft).
func TestScriptSaysWhatNftLists(t *testing.T) {
	listed, err := os.ReadFile(filepath.Join("testdata", "ruleset.nft"))
	if err != nil {
		t.Fatal(err)
	}
	// What nft writes otherwise when it lists.
	same := strings.NewReplacer(
		"# ", "", "priority set 0:0", "priority set none", "timeout 10800s", "timeout 3h", "meta l4proto tcp reject", "reject",
		"reject with icmp type port-unreachable", "reject", "reject with icmpv6 type port-unreachable", "reject", `oif "lo"`, "oif 1", "oif != \"lo\"", "oif != 1",
		"priority dstnat;", "priority -100;", "priority srcnat - 1;", "priority 99;", "priority filter;", "priority 0;",
	)
	chains := func(text string) map[string][]string {
		out, family, chain := map[string][]string{}, "", ""
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			switch m := regexp.MustCompile(`^(\t?)(table|chain|map|set) (.*) \{$`).FindStringSubmatch(line); {
			case m != nil && m[2] == "table":
				family = m[3]
			case m != nil:
				chain = ""
				if m[2] == "chain" {
					chain = family + " " + m[3]
					out[chain] = []string{}
				}
			case chain != "" && strings.HasPrefix(line, "\t\t"):
				out[chain] = append(out[chain], same.Replace(strings.TrimSpace(line)))
			}
		}
		return out
	}
	want, got := chains(string(listed)), chains(nftables.Script(everyKind()))
	if len(want) < 100 || slices.ContainsFunc([]map[string][]string{want, got}, func(m map[string][]string) bool { return len(m["ip plumbline prerouting"]) == 0 }) {
		t.Fatalf("%d chains are listed", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chains (-as nft lists them +in the script):\n%s", diff)
	}
}
