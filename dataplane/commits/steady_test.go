package commits

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

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
		_, err := steady(func() (ear, error) { return told(!c.foreign), nil }, func() (uint32, error) {
			at := (asked + 1) / 2 // one reading begins where the one before ended
			asked++
			return c.generations[min(at, len(c.generations)-1)], nil
		}, func() (int, error) {
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

// told is what the kernel tells of each generation.
type told bool

func (t told) Touched(uint32) (bool, error) { return bool(t), nil }
func (told) Close() error                   { return nil }

// world has tables of ours and of others, and sockets that miss what is more than a little.
type world struct {
	t  *testing.T
	ns *netns.NS
}

func newWorld(t *testing.T) *world {
	need.Program(t, "nft")
	w := &world{t, netns.ForTest(t, "commits")}
	w.commit("add table ip ours; add set ip ours s { type ipv4_addr; }; add table ip theirs; add set ip theirs s { type ipv4_addr; }")
	return w
}

func (w *world) commit(script string) {
	w.t.Helper()
	err := w.ns.Do(func() error {
		cmd := exec.CommandContext(w.t.Context(), "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = errors.Join(err, errors.New(string(out)))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// flood commits more to another's table than a socket takes.
func (w *world) flood() {
	var elems []string
	for i := range 4096 {
		elems = append(elems, fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
	}
	w.commit("add element ip theirs s { " + strings.Join(elems, ", ") + " }; flush set ip theirs s")
}

func (w *world) listen() *Listener {
	w.t.Helper()
	l, err := Listen(w.ns.FD(), "ours")
	if err == nil {
		err = l.conn.SetReadBuffer(4096)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// When others have committed more than the kernel had room to tell of, a reading that our own
// tables changed meanwhile is still known from one that they did not.
func TestSteadyInFlood(t *testing.T) {
	w := newWorld(t)
	readings := 0
	begin := time.Now()
	got, err := steady(func() (ear, error) { return w.listen(), nil }, func() (uint32, error) { return Generation(w.ns.FD()) }, func() (int, error) {
		switch readings++; readings {
		case 1:
			w.flood()
		case 2:
			w.commit("add element ip ours s { 10.0.0.1 }")
		case 3:
			w.commit("add element ip theirs s { 10.0.0.1 }")
		}
		return readings, nil
	})
	if got != 3 || err != nil {
		t.Errorf("the %d. reading is taken, %v; want the third", got, err)
	}
	if took := time.Since(begin); took > answerWithin/2 {
		t.Errorf("it took %s", took)
	}
}

// After a flood every transaction is heard of again.
func TestWatchAfterFlood(t *testing.T) {
	w := newWorld(t)
	l := w.listen()
	defer l.Close()
	w.flood()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	lost := 0
	err := l.Watch(ctx, func(uint32) bool { return false }, func() {
		if lost++; lost == 1 {
			w.commit("add element ip ours s { 10.0.0.1 }")
		} else {
			cancel()
		}
	})
	if lost != 2 || err != nil {
		t.Errorf("heard of %d losses, %v; want of the flood and of what came after it", lost, err)
	}
}

// What the kernel tells of is told apart by its table, in each order of events.
func TestTouched(t *testing.T) {
	w := newWorld(t)
	w.commit("add table inet ours; add table ip oursandmore; delete set ip theirs s")
	l, err := Listen(w.ns.FD(), "ours")
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
		before, err := Generation(w.ns.FD())
		if err != nil {
			t.Fatal(err)
		}
		w.commit(c.script)
		after, err := Generation(w.ns.FD())
		if err != nil || after == before {
			t.Fatalf("%s: generation %d before, %d after, %v", c.script, before, after, err)
		}
		if got, err := l.Touched(after); got != c.want || err != nil {
			t.Errorf("%s: touched %v, %v; want %v", c.script, got, err, c.want)
		}
	}
}
