package kit

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/cell"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// A failure says what was done until then, in order, what was sent from whom to where, what came back, and
// who has the addresses that it names; of what passed nothing of that is kept.
func TestFailureIsTold(t *testing.T) {
	e, b := served(t)
	e.cfg.Limit, e.cfg.Evidence = 300*time.Millisecond, [][]string{{"show", "{frontend}", "for", "[2001:db8::2]:1"}}
	run := func(port uint16) Result {
		return e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
			svc := s.Service(ExternalIPs(b.Addr(s.Family)), Ports(Port("", corev1.ProtocolTCP, int32(port))))
			svc.Endpoints(e.nodes[0].Ready())
			s.Pause(aWait)
			s.Expect(s.Outside(), TCP(svc.At(b.Addr(s.Family), "")), Only(b).Times(4))
			svc.Delete()
		}}, corev1.IPv4Protocol)
	}
	r := run(10) // where nobody listens
	var did []string
	for _, st := range r.Steps {
		did = append(did, st.Did)
	}
	if d := cmp.Diff([]string{
		"made Service x-s1: ports 10/TCP, externalIPs 192.0.2.2",
		"wrote EndpointSlice x-s1-a: 192.0.2.2 (on b, ready); ports 8080/TCP",
		"waited 100ms",
		"outside dialled 192.0.2.2:10/tcp (external IP of Service x-s1); wanted answers of b alone",
	}, did); d != "" {
		t.Fatalf("steps (-want +got):\n%s", d)
	}
	if last := r.Steps[3]; !last.Wrong || !strings.Contains(last.Came, " times since ") || !strings.Contains(last.Came, "4: 4 refused") || last.At <= r.Steps[2].At || r.Steps[2].At < conformance.Duration(aWait) {
		t.Errorf("it came to %+v, after %+v", last, r.Steps[2])
	}
	if r.Sent != "4 attempts by TCP, from outside (where the suite runs) to 192.0.2.2:10/tcp (external IP of Service x-s1)" || !strings.HasPrefix(r.Came, "4: 4 refused; from 192.0.2.1:") || !strings.HasSuffix(r.Came, "; and 1 more") {
		t.Errorf("sent: %s\ncame: %s", r.Sent, r.Came)
	}
	want := []conformance.Named{{Address: "2001:db8::2", Who: "node b, at its link eth0"}, {Address: "192.0.2.2", Who: "node b; external IP of Service x-s1"}, {Address: "192.0.2.1", Who: "outside: where the suite runs"}}
	if d := cmp.Diff(want, r.Legend); d != "" {
		t.Errorf("legend (-want +got):\n%s", d)
	}
	text, err := os.ReadFile(filepath.Join(e.cfg.Dir, r.Evidence[0]))
	if err != nil || filepath.Base(r.Evidence[0]) != "b-frontend.txt" || string(text) != "$ show 192.0.2.2:10 for [2001:db8::2]:1\ntimeout -k 1 5 show 192.0.2.2:10 for [2001:db8::2]:1\n" {
		t.Errorf("first of the evidence %q: %s, %v", r.Evidence, text, err)
	}
	if last := filepath.Base(r.Evidence[len(r.Evidence)-1]); whole(last) != 1 {
		t.Errorf("last of the evidence: %s", last)
	}
	if r = run(servicePort); r.Result != ResultPass || len(r.Steps)+len(r.Legend)+len(r.Sent) > 0 {
		t.Errorf("%s: %+v", r.Result, r.Failure)
	}
}

// Of many steps those are told that changed something, and the last: what was dialled in vain too.
func TestTold(t *testing.T) {
	var all []step
	for i := range maxSteps {
		all = append(all, step{did: fmt.Sprint("changed ", i)}, step{did: "dialled", came: "as wanted", dial: &dial{rounds: 1}})
	}
	all[len(all)-1].wrong = true
	got := told(all)
	if len(got) != maxSteps+1 || got[0].Did != "40 steps of 80 are left out here: attempts that came to what was wanted, from the first on" || got[1].Did != "changed 1" || got[maxSteps].Did != "dialled" {
		t.Errorf("%d steps: %v", len(got), got)
	}
	if got = told(all[:4]); len(got) != 4 {
		t.Errorf("of few: %v", got)
	}
	long := step{came: strings.Repeat("ä", maxCame)}.report()
	if len(long.Came) > maxCame+len("…") || !strings.HasSuffix(long.Came, "ä…") {
		t.Errorf("%d bytes: %s", len(long.Came), long.Came)
	}
}

// Attempts that are made again until they come to what is wanted are one step, of the way, and so are those
// that show that it goes on; a knock between them is none.
func TestRounds(t *testing.T) {
	s := &Spec{began: time.Now(), env: &Env{}}
	silent := &remote.Results{Attempts: []remote.Result{{Class: remote.Timeout}}}
	one, two := Way{Client{Name: "one"}, TCP(netip.MustParseAddrPort("192.0.2.2:80"))}, Way{Client{Name: "two"}, TCP(netip.MustParseAddrPort("192.0.2.2:80"))}
	s.dialled(one, Want{text: "answers"}, &remote.Results{Attempts: slices.Repeat(silent.Attempts, 4)}, "silence")
	s.dialled(one, Want{}, silent, "silence")
	s.dialled(one, Want{text: "answers"}, &remote.Results{Attempts: slices.Repeat(silent.Attempts, 4)}, "")
	s.dialled(one, Want{text: "answers"}, silent, "")
	s.dialled(one, Want{text: "answers"}, silent, "")
	s.dialled(one, Want{text: "answers"}, silent, "silence")
	s.dialled(two, Want{text: "answers"}, silent, "silence")
	got := ""
	for _, st := range s.steps {
		got += fmt.Sprintf("%s: %d of %d, %t\n", st.did, st.dial.n, st.dial.rounds, st.wrong)
	}
	want := "one dialled 192.0.2.2:80/tcp; wanted answers: 4 of 3, false\none dialled 192.0.2.2:80/tcp; wanted answers: 1 of 2, false\none dialled 192.0.2.2:80/tcp; wanted answers: 1 of 1, true\ntwo dialled 192.0.2.2:80/tcp; wanted answers: 1 of 1, true\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAddressesIn(t *testing.T) {
	got := fmt.Sprint(addressesIn("a to 10.0.0.1:80/tcp, [fd00::1]:80 and fd00::2; took 1.5s at 12:30:01 (192.0.2.1), v1.36.3. From 10.0.0.1."))
	if got != "[10.0.0.1 fd00::1 fd00::2 192.0.2.1]" {
		t.Error(got)
	}
}

// What a legend knows is by name: nodes, pods, hosts beyond nodes, and every address of a Service.
func TestKnown(t *testing.T) {
	s, v := charted()
	v.obj.Name = "s1"
	s.Nodes[0].Zone = "zone-a"
	s.beyonds = map[netip.Addr]*Node{netip.MustParseAddr("192.0.2.5"): s.Nodes[1]}
	v.met = map[Target]cell.Value{TCP(netip.MustParseAddrPort("198.51.100.9:80")): "external IP"}
	got := ""
	for _, n := range s.legend("192.0.2.1 10.0.2.2 192.0.2.5 10.96.0.1 198.51.100.1 198.51.100.2 198.51.100.9 203.0.113.1") {
		got += n.Address + ": " + n.Who + "\n"
	}
	want := `10.96.0.1: ClusterIP of Service s1
192.0.2.5: a host outside, beyond two
198.51.100.1: external IP of Service s1
198.51.100.9: external IP of Service s1
198.51.100.2: load balancer address of Service s1
192.0.2.1: node one in zone-a
10.0.2.2: pod two-b on two
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
