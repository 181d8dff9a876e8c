package commits

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A reading that others wrote into is made again, and given up in the end.
func TestSteady(t *testing.T) {
	for _, c := range []struct {
		name        string
		generations []uint32 // before the first reading and after each; the last repeats
		foreign     bool     // they were about other tables
		missed      int      // so many readings say that they missed something
		readings    int
		fails       bool
	}{
		{"nobody", []uint32{7}, false, 0, 1, false},
		{"somebody, once", []uint32{7, 8}, false, 0, 2, false},
		{"and a third time, and the number comes round", []uint32{7, 8, 9, 7}, false, 0, 4, false},
		{"always", []uint32{1, 2, 3, 4, 5, 6}, false, 0, tries, true},
		{"always, about other tables", []uint32{1, 2, 3, 4, 5, 6}, true, 0, 1, false},
		{"nobody, and something is missing", []uint32{7}, false, 2, 3, false},
		{"others, and something is missing", []uint32{1, 2, 3}, true, 1, 2, false},
		{"something is always missing", []uint32{7}, false, 99, tries, true},
	} {
		asked, readings := 0, 0
		_, err := steady(func() (uint32, error) {
			g := c.generations[min(asked, len(c.generations)-1)]
			asked++
			return g, nil
		}, func(uint32) (bool, error) { return !c.foreign, nil }, func() (int, error) {
			if readings++; readings <= c.missed {
				return 0, ErrInterrupted
			}
			return 0, nil
		})
		if readings != c.readings || (err != nil) != c.fails {
			t.Errorf("%s: %d readings, %v; want %d", c.name, readings, err, c.readings)
		}
	}
}

// What the kernel tells of is told apart by its table, in each order of events.
func TestTouched(t *testing.T) {
	need.Program(t, "nft")
	ns := netns.ForTest(t, "commits")
	commit := func(script string) {
		t.Helper()
		err := ns.Do(func() error {
			out, err := exec.CommandContext(t.Context(), "nft", script).CombinedOutput()
			if err != nil {
				err = errors.Join(err, errors.New(string(out)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	commit("add table ip ours; add set ip ours s { type ipv4_addr; }; add table ip theirs; add table inet ours; add table ip oursandmore")
	l, err := Listen(ns.FD(), "ours")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		script string
		want   bool
	}{
		{"add set ip theirs s { type ipv4_addr; }", false},
		{"add element ip theirs s { 10.0.0.1, 10.0.0.2 }", false},
		{"add element ip ours s { 10.0.0.1, 10.0.0.2 }", true},
		{"add chain inet ours c", false},
		{"add chain ip oursandmore c", false},
		{"add element ip theirs s { 10.0.0.3 }; delete element ip ours s { 10.0.0.1 }; add chain ip theirs c", true},
		{"add rule ip theirs c accept", false},
		{"add chain ip ours c", true},
		{"add rule ip ours c accept", true},
		{"delete table ip theirs", false},
		{"flush ruleset", true},
	} {
		before, err := Generation(ns.FD())
		if err != nil {
			t.Fatal(err)
		}
		commit(c.script)
		after, err := Generation(ns.FD())
		if err != nil || after == before {
			t.Fatalf("%s: generation %d before, %d after, %v", c.script, before, after, err)
		}
		if got, err := l.Touched(after); got != c.want || err != nil {
			t.Errorf("%s: touched %v, %v; want %v", c.script, got, err, c.want)
		}
	}
}
