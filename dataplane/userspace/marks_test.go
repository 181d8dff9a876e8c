package userspace_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/need"
)

// A packet that carries a mark of somebody else's (rules.go) goes as it would without, and still has it where
// it leaves the rules: to the process and from it, to pods, to the node itself, and back.
func TestOthersMarks(t *testing.T) {
	need.Program(t, "nft")
	w := newWorld(t, userspace.Config{}, web+slice("dns", 5353, "UDP", readyA))
	w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
	w.listen(t, dptest.Self, "192.0.2.1:9090", echo)
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	nft := func(line string) string {
		t.Helper()
		var out []byte
		err := w.Node.Do(func() (err error) { out, err = exec.Command("nft", line).CombinedOutput(); return err })
		if err != nil {
			t.Fatalf("nft %s: %v: %s", line, err, out)
		}
		return string(out)
	}
	for _, mark := range []uint32{0x2000, 0x4000, 0x8000, 0x1000, 0x0f00, 0xffff0000, 0x80, 0xca6c, 1} {
		ok := t.Run(fmt.Sprintf("%#x", mark), func(t *testing.T) {
			sets, lacks := fmt.Sprintf("meta mark set meta mark or %#x", mark), fmt.Sprintf("meta mark and %#x != %#x counter name lost", mark, mark)
			nft(fmt.Sprintf(`table ip theirs {
				counter lost { }
				chain in { type filter hook prerouting priority -300; %[1]s; }
				chain out { type route hook output priority -300; %[1]s; }
				chain to-node { type filter hook input priority 300; %[2]s; }
				chain through { type filter hook forward priority 300; %[2]s; }
				chain away { type filter hook postrouting priority 300; %[2]s; }
			}`, sets, lacks))
			defer nft("delete table ip theirs")
			w.goesAsEver(t)
			if lost := nft("list counter ip theirs lost"); !strings.Contains(lost, "packets 0 ") {
				t.Errorf("packets lack the mark: %s", lost)
			}
		})
		if !ok { // the next would wait as long
			break
		}
	}
}

// goesAsEver sees what a Service and those who are none are to do: three connections go by the process.
func (w *world) goesAsEver(t *testing.T) {
	t.Helper()
	before := w.target.Stats()
	for _, way := range []struct {
		from dptest.Source
		to   string
	}{
		{dptest.PodB, "10.96.0.10:80"}, {dptest.Self, "10.96.0.10:80"}, {dptest.Outside, "192.0.2.1:30080"},
		{dptest.PodB, "10.244.1.2:8080"}, {dptest.Self, "10.244.1.2:8080"}, {dptest.Outside, "192.0.2.1:9090"},
	} {
		c, err := w.dial(way.from, way.to)
		if err == nil {
			err = errors.Join(ping(c, "hello"), c.Close())
		}
		if err != nil {
			t.Fatalf("from %s to %s: %v", way.from, way.to, err)
		}
	}
	for _, from := range []dptest.Source{dptest.PodB, dptest.Self} {
		if who, _, err := ask(w.client(t, from), "hello"); err != nil || who != "pod-a" {
			t.Errorf("from %s: a datagram is answered by %q: %v", from, who, err)
		}
		if c, err := w.dial(from, "10.96.0.10:81"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("from %s: a port that the Service does not have: %v", from, err)
			if c != nil {
				c.Close()
			}
		}
	}
	if got := w.target.Stats().Accepted - before.Accepted; got != 3 {
		t.Errorf("%d connections went by the process, want 3", got)
	}
}
