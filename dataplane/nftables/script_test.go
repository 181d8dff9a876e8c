package nftables_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// The words for rules, and what leads to chains, are those that nft itself has for what Apply makes
// (testdata/ruleset.nft, which TestNftLists holds to nft).
func TestScriptSaysWhatNftLists(t *testing.T) {
	listed, err := os.ReadFile(filepath.Join("testdata", "ruleset.nft"))
	if err != nil {
		t.Fatal(err)
	}
	want, got := listing(string(listed)), listing(nftables.Script(everyKind()))
	for _, at := range []string{"ip plumbline chain prerouting", "ip plumbline map classes", "ip6 plumbline map learning"} {
		if len(want[at]) == 0 {
			t.Fatalf("nft lists no %s", at)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chains and verdict maps (-as nft lists them +in the script):\n%s", diff)
	}
}

// So they are where links tell which pods are the node's own.
func TestScriptSaysLinks(t *testing.T) {
	for _, link := range []plan.Link{"cni0", "cali*"} {
		p := everyKind()
		p.Node.LocalPods, p.Node.LocalLink = nil, link
		ns := netns.ForTest(t, "links")
		apply(t, newTarget(t, ns), nil, p)
		want, got := listing(mustNft(t, ns, "list", "ruleset")), listing(nftables.Script(p))
		for chain, asks := range map[string]string{"to-node": "iifname %q", "postrouting": "iifname != %q"} {
			if text := strings.Join(want["ip plumbline chain "+chain], "\n"); !strings.Contains(text, fmt.Sprintf(asks, link)) {
				t.Errorf("no rule of %s asks for %s:\n%s", chain, link, text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-as nft lists them +in the script):\n%s", link, diff)
		}
	}
}

var (
	blockHead = regexp.MustCompile(`^\t?(table|chain|map|set) (.*) \{$`)
	leads     = regexp.MustCompile(`[^ {},]+ : (?:goto|jump) [^ {},]+`)
)

// listing is the rules of each chain and the elements of each verdict map, without what nft
// writes otherwise when it lists.
func listing(text string) map[string][]string {
	same := strings.NewReplacer(
		"# ", "", "priority set 0:0", "priority set none", "timeout 10800s", "timeout 3h", "meta l4proto tcp reject", "reject",
		"reject with icmp type port-unreachable", "reject", "reject with icmpv6 type port-unreachable", "reject", "oif != \"lo\"", "oif != 1",
		"priority dstnat;", "priority -100;", "priority srcnat - 1;", "priority 99;", "priority filter;", "priority 0;",
	)
	out, family, at := map[string][]string{}, "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := blockHead.FindStringSubmatch(line)
		switch {
		case m != nil && m[1] == "table":
			family = m[2]
		case m != nil:
			if at = family + " " + m[1] + " " + m[2]; m[1] == "chain" {
				out[at] = []string{}
			}
		case strings.Contains(at, " chain ") && strings.HasPrefix(line, "\t\t"):
			out[at] = append(out[at], same.Replace(strings.TrimSpace(line)))
		case strings.Contains(at, " map "):
			for _, lead := range leads.FindAllString(line, -1) {
				key, to, _ := strings.Cut(lead, " : ")
				if n, err := strconv.ParseUint(key, 0, 32); err == nil { // a number, which scripts write as a classid
					key = fmt.Sprintf("%x:%x", n>>16, n&0xffff)
				}
				out[at] = append(out[at], key+" : "+to)
			}
			slices.Sort(out[at])
		}
	}
	return out
}
