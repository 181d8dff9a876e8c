//go:build linux

package dptest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

func TestParseRow(t *testing.T) {
	for _, tc := range []struct{ line, outcome, err string }{
		{"pod-a tcp 10.96.0.1:80 10.244.2.2:80 10.244.1.2:80@node", "10.244.1.2:80@node 10.244.2.2:80", ""},
		{"foreign udp [fd00::1]:53 sticky [fd00::2]:53 # KEP-1", "sticky [fd00::2]:53", ""},
		{"node sctp 10.96.0.1:80 same 10.244.1.2:80", "same 10.244.1.2:80", ""},
		{"remote tcp 10.96.0.1:80 pass", "pass", ""},
		{"outside tcp 10.96.0.1:80 reject", "reject", ""},
		{"outside tcp [fd00::1]:80 soft-reject", "soft-reject", ""},
		{"outside tcp [fd00::1]:80 soft-reject [fd00::2]:80", "", "nothing may follow"},
		{"moon tcp 10.96.0.1:80 pass", "", "unknown source"},
		{"pod-a gre 10.96.0.1:80 pass", "", "unknown protocol"},
		{"pod-a tcp 10.96.0.1 pass", "", "not an ip:port"},
		{"pod-a tcp 10.96.0.1:80 drop 10.0.0.1:80", "", "nothing may follow"},
		{"pod-a tcp 10.96.0.1:80 sticky", "", "no destination"},
		{"pod-a tcp 10.96.0.1:80 pas", "", "not an ip:port"},
		{"pod-a tcp 10.96.0.1:80 [fd00::1]:80", "", "another family"},
		{"pod-a tcp 10.96.0.1:80", "", "want: from"},
	} {
		r, err := parseRow(tc.line)
		switch {
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: %v, want %q", tc.line, err, tc.err)
		case tc.err == "" && (err != nil || r.Outcome() != tc.outcome):
			t.Errorf("%s: %s, %v", tc.line, r.Outcome(), err)
		}
	}
}

func TestSteps(t *testing.T) {
	c, err := parse("x.txtar", []byte(fakeCases))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Steps) != 3 {
		t.Fatalf("%d steps", len(c.Steps))
	}
	var got []string
	for _, s := range c.Steps {
		got = append(got, fmt.Sprint(len(s.Changes), " changes, ", len(s.Objects.Services), " services, ", len(s.Objects.Slices), " with slices, ", len(s.Packets), " packets"))
	}
	if diff := cmp.Diff([]string{
		"7 changes, 2 services, 2 with slices, 9 packets", "3 changes, 1 services, 1 with slices, 2 packets", "1 changes, 1 services, 0 with slices, 2 packets",
	}, got); diff != "" {
		t.Error(diff)
	}
	rows, skip := c.Peer("nftables")
	if skip != "" || rows[6].Outcome() != "pass" || rows[6].Note == "" || c.Packets[6].Outcome() != "drop" {
		t.Errorf("peer rows %+v, %q", rows, skip)
	}
}

// TestBadCases: what is put into a good case, and what is said of it.
func TestBadCases(t *testing.T) {
	head, rest, _ := strings.Cut(otherCase, "-- packets --\n")
	for _, tc := range []struct{ file, says string }{
		{strings.TrimPrefix(otherCase, "Another case for the contract's own tests.\n"), "no comment"},
		{head + "-- packet --\n" + rest, "section packet: unknown"},
		{head + "-- packets --\n", "none: a case without them"},
		{otherCase + "-- packets --\n" + rest, "section packets: twice"},
		{otherCase + "-- plan-2 --\n", "no packets of step 2"},
		{otherCase + "-- packets-2 --\n" + rest, "step 2 changes nothing"},
		{otherCase + "-- delete-2 --\nService default/none\n-- packets-2 --\n" + rest, "no such object"},
		{otherCase + "-- delete-2 --\nPod default/none\n-- packets-2 --\n" + rest, "unknown kind"},
		{otherCase + "-- options --\nsctp=yes\n", "want one of"},
		{otherCase + "-- options --\nnodeport-addresses=all\n", "no '/'"},
		{otherCase + "-- options --\nport=1\n", "unknown"},
		{otherCase + "-- options --\nbad-objects=true\n", "no bad object"},
		{strings.Replace(otherCase, "port: 53", "port: 0", 1), "out of range"},
		{otherCase + "-- kube-proxy --\npod-b udp 10.96.0.53:54 pass # x\n", "no such packet"},
		{otherCase + "-- kube-proxy --\npod-b udp 10.96.0.53:53 pass\n", "no source"},
		{otherCase + "-- kube-proxy --\npod-b udp 10.96.0.53:53 reject # x\n", "no difference"},
		{strings.Replace(otherCase, "reject", "reject\npod-b udp 10.96.0.53:53 drop", 1), "twice"},
	} {
		if _, err := parse("x.txtar", []byte(tc.file)); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v, want %q, of\n%s", err, tc.says, tc.file)
		}
	}
	skipped, err := parse("x.txtar", []byte(otherCase+"-- kube-proxy-iptables --\nnot-applicable # no such option there\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, skip := skipped.Peer("iptables"); skip != "no such option there" {
		t.Errorf("skipped for %q", skip)
	}
	if rows, skip := skipped.Peer("nftables"); skip != "" || len(rows) != 1 {
		t.Errorf("the other mode: %v, %q", rows, skip)
	}
}

// A slice that a step gives to another Service leaves the first.
func TestStepMovesSlice(t *testing.T) {
	slice := func(owner string) string {
		return "kind: EndpointSlice\nmetadata: {name: s, namespace: default, labels: {kubernetes.io/service-name: " + owner + "}}\n" +
			"addressType: IPv4\nports: [{port: 1053, protocol: UDP}]\nendpoints:\n- {addresses: [10.244.2.2]}\n"
	}
	head, rows, _ := strings.Cut(otherCase, "-- packets --\n")
	c, err := parse("x.txtar", []byte(head+"---\n"+slice("dns")+"-- packets --\n"+rows+"-- then-2.yaml --\n"+slice("other")+"-- packets-2 --\n"+rows))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Steps[1].Objects.Slices[objects.Name{Namespace: "default", Name: "dns"}]); n != 0 {
		t.Errorf("%d slices stay", n)
	}
}

// Several that update at once, and a hand that edits, lose nothing.
func TestUpdate(t *testing.T) {
	path := filepath.Join(fakeDir(t), "fake.txtar")
	loaded, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(fakeCases, "A case", "A case, edited since,", 1)
	if err := os.WriteFile(path, []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	sections := []string{"plan", "nftables", "iptables", "userspace", "plan-2", "plan-3"}
	var writers sync.WaitGroup
	for _, s := range sections {
		writers.Go(func() {
			for i := range 20 {
				if err := loaded.Update(s, fmt.Sprintln(s, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	now, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		if got := now.Section(s); got != s+" 19\n" {
			t.Errorf("section %s is %q", s, got)
		}
	}
	raw, _ := os.ReadFile(path)
	if !strings.HasPrefix(string(raw), "A case, edited since,") {
		t.Error("the edit is lost")
	}
	if err := loaded.Update("packets", "x"); err == nil {
		t.Error("packets were rewritten")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBadObjects(t *testing.T) {
	c, err := parse("x.txtar", []byte(strings.Replace(otherCase, "port: 53", "port: 0", 1)+"-- options --\nbad-objects=true\n"))
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Objects.Services[objects.Name{Namespace: "default", Name: "dns"}]; len(s.ClusterIPs) != 1 || len(s.Ports) != 0 {
		t.Errorf("made of it: %+v", s)
	}
}

// The node under test is in the objects unless they bring their own.
func TestDefaults(t *testing.T) {
	c, err := parse("x.txtar", []byte(otherCase+"-- options --\nnodeport-addresses=192.0.2.0/24,2001:db8:2::/64\nsctp=true\nno-local-endpoints=reject\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := c.Plan()
	if got := fmt.Sprint(p.Node.Addrs); got != "[192.0.2.1 192.0.2.2 2001:db8:2::1 2001:db8:2::2]" {
		t.Errorf("node ports at %s", got)
	}
	if !c.Options.SCTP || c.Options.NoLocal != plan.Reject {
		t.Errorf("options %+v", c.Options)
	}
}
