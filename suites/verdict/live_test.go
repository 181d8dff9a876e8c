package verdict

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe"
	"github.com/plumbline/plumbline/fixtures/record"
)

// wants is what an act must be taken for.
var wants = map[act]struct {
	class Class
	cause Cause
}{
	serve: {OK, ""}, drain: {OKFromTerminating, ""}, dawdle: {OKSlow, ""},
	miss:  {RespTimeout, CauseSrvSilent},
	stall: {RespTimeout, CauseSrvSilent}, resetAtOnce: {ResetBeforeResp, CauseSrvReset}, hangUp: {EOFBeforeResp, CausePod},
	truncate: {ShortBody, CausePod}, resetInBody: {ResetMidBody, CausePod},
	app500: {HTTP5xxApp, CausePod}, app404: {HTTP4xx, CausePod}, garble: {BadBody, CausePod},
	impostor: {WrongBackend, CauseMisrouted}, errorPage: {HTTP5xxLB, CauseSrvRefused},
	refuse: {EOFBeforeResp, CauseSrvRefused}, swallow: {RespTimeout, CauseSrvSilent}, noNode: {EOFBeforeResp, CauseNoServer},
}

const liveAttempts = 150

// script: two stretches of losses, 410 ms of successes between them. Even
// numbers go to n1, odd ones to n2.
func script(seq int) act {
	switch {
	case seq < 20:
	case seq < 40 && seq%2 == 0:
		return swallow
	case seq >= 100 && seq < 110:
		return refuse
	}
	return map[int]act{
		40: resetAtOnce, 42: resetInBody, 44: truncate, 46: stall, 48: refuse, 50: hangUp,
		52: errorPage, 54: app500, 56: app404, 58: garble, 60: miss,
		11: drain, 13: dawdle, 120: impostor, 130: noNode, 131: noNode, 140: drain, 141: dawdle,
	}[seq]
}

func (a act) orServe() act {
	if a == "" {
		return serve
	}
	return a
}

// live is what the probe records against the fakes, on a host that lets it send in
// time, and answer: on a busy one some are slower than the script has it.
func live(t *testing.T) (in Input) {
	t.Helper()
	const late = 100 * time.Millisecond
	for range 20 {
		halted := halts()
		in = recorded(t)
		if longest := halted(); longest <= late && !slices.ContainsFunc(in.Attempts, func(a record.Attempt) bool { return a.Late() > int64(late) }) {
			break
		}
	}
	return in
}

// halts is how late one who waits as the fakes do, and unlike the thread that sends, came at most, until it is
// asked.
func halts() func() time.Duration {
	stop, most := make(chan struct{}), make(chan time.Duration)
	go func() {
		const nap = 5 * time.Millisecond
		longest := time.Duration(0)
		for at, asked := time.Now(), false; !asked; {
			select {
			case <-stop:
				asked = true
			case <-time.After(nap):
			}
			now := time.Now()
			longest, at = max(longest, now.Sub(at)-nap), now
		}
		most <- longest
	}()
	return func() time.Duration {
		close(stop)
		return <-most
	}
}

func recorded(t *testing.T) Input {
	t.Helper()
	f := newFake(t, patience, func(seq int) act { return script(seq).orServe() })
	cfg := probe.Config{
		Stream: record.Main, Rate: 100, Seed: 7, Deadline: 1500 * time.Millisecond,
		Target: f.lb.Addr().(*net.TCPAddr).AddrPort(),
	}
	in := Input{Attempts: attempts(t, cfg, liveAttempts)}
	conns, err := f.finish()
	if err != nil {
		t.Fatal(err)
	}
	in.Conns = conns
	in.Control = []record.Attempt{good(nil)}
	in.Settings = Settings{
		Rollout: 1, Rate: 100, Timeout: time.Second, Deadline: cfg.Deadline, Nodes: []string{"n1", "n2"},
		Local: true, Connect: lbConnect, Origin: 1, Limits: DefaultLimits(),
	}
	in.Settings.Limits.LateP99 = time.Hour // punctuality is the run's own check
	return in
}

// checkLive holds a verdict on what was recorded against the script.
func checkLive(in Input, classify classifier) error {
	intended := map[int]int64{}
	for _, a := range in.Attempts {
		intended[a.Seq] = a.Intended
	}
	classes, causes, lost := map[Class]int{}, map[Cause]int{}, 0
	for seq := range liveAttempts {
		w := wants[script(seq).orServe()]
		classes[w.class]++
		if w.class.Lost() {
			causes[w.cause]++
			lost++
		}
	}
	win := func(node string, from, to, n, of int) string {
		return fmt.Sprintf("%s %d-%d %d/%d", node, intended[from], intended[to], n, of)
	}
	want := []string{
		win("", 130, 131, 2, 2), // no server: no node
		win("n1", 20, 60, 21, 21), win("n1", 100, 120, 6, 11),
		win("n2", 13, 13, 0, 1), win("n2", 101, 109, 5, 5), win("n2", 141, 141, 0, 1), // slow, lost, slow
		win("", 100, 109, 10, 10), win("", 130, 131, 2, 2),
	}
	in.Settings.Origin = 0 // planned times in ns, from the first attempt
	r := judge(in, classify)
	var got []string
	for _, w := range append(append([]Window{}, r.NodeWindows...), r.Outages...) {
		abs := func(s float64) int64 { return intended[0] + int64(s*1e9+0.5) }
		got = append(got, fmt.Sprintf("%s %d-%d %d/%d", w.Node, abs(w.Start), abs(w.End), w.Lost, w.Of))
	}
	switch {
	case r.Lost != lost || r.Sent != liveAttempts || r.Slow != 2 || r.FromTerminating != 2:
		return fmt.Errorf("sent %d lost %d slow %d terminating %d, want %d %d 2 2", r.Sent, r.Lost, r.Slow, r.FromTerminating, liveAttempts, lost)
	case !maps.Equal(r.Classes, classes):
		return fmt.Errorf("classes %v, want %v", r.Classes, classes)
	case !maps.Equal(r.Causes, causes):
		return fmt.Errorf("causes %v, want %v", r.Causes, causes)
	case !slices.Equal(got, want):
		return fmt.Errorf("windows %q, want %q", got, want)
	}
	return nil
}

func TestLive(t *testing.T) {
	in := live(t)
	if err := checkLive(in, Classify); err != nil {
		t.Error(err)
	}
	if r := Judge(in); !r.Valid || r.Harness.Joined != liveAttempts {
		t.Errorf("valid %v %v, %d in the LB's log", r.Valid, r.Reasons, r.Harness.Joined)
	}
}

// TestFakesEnd: a client that never hangs up holds neither finish nor the end
// of the test, whether its request stalls or never comes.
func TestFakesEnd(t *testing.T) {
	request := "GET /?seq=%d HTTP/1.1\r\n\r\n"
	dial := func(t *testing.T, f *fake, text string) {
		c, err := net.Dial("tcp", f.lb.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, text)
	}
	within := func(t *testing.T, what string, f func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatalf("%s hangs", what)
		}
	}
	for name, c := range map[string]struct {
		text string
		held int // connections: the client's, and two more to a pod for a request
	}{"silent": {"", 1}, "stalled": {fmt.Sprintf(request, 0), 3}} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 200*time.Millisecond, func(int) act { return stall })
			dial(t, f, c.text)
			within(t, "finish", func() {
				for !f.holds(c.held) {
					time.Sleep(time.Millisecond)
				}
				if _, err := f.finish(); err == nil {
					t.Error("a connection that outlived its limit went unnoticed")
				}
			})
			f = newFake(t, time.Hour, func(int) act { return stall })
			dial(t, f, c.text)
			within(t, "end", func() {
				for !f.holds(c.held) {
					time.Sleep(time.Millisecond)
				}
				f.end()
			})
		})
	}
}

// holds reports whether so many connections are held, or have been for too long.
func (f *fake) holds(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open) >= n || f.overdue > 0
}

// TestEveryActIsPlayed: the script leaves nothing out.
func TestEveryActIsPlayed(t *testing.T) {
	for a := range wants {
		played := false
		for seq := range liveAttempts {
			played = played || script(seq).orServe() == a
		}
		if !played {
			t.Errorf("%s is not in the script", a)
		}
	}
}

// TestDirect: what only a client without a proxy in between can see.
func TestDirect(t *testing.T) {
	one := func(addr string, deadline time.Duration) record.Attempt {
		return attempts(t, probe.Config{
			Stream: record.Main, Rate: 100, Deadline: deadline, Target: netip.MustParseAddrPort(addr),
		}, 1)[0]
	}
	if c := Classify(one(nobody(t), time.Second), 500*time.Millisecond); c != DialRefused {
		t.Errorf("nothing listens: %s", c)
	}
	silent := netns.ListenSilently(t)
	if c := Classify(one(silent.Addr.String(), 300*time.Millisecond), 200*time.Millisecond); c != DialTimeout {
		t.Errorf("SYN dropped: %s", c)
	}
	// The first two SYNs are dropped, the one two seconds later is not.
	silent = netns.ListenSilently(t)
	go func() {
		if awaitResent(t, silent.Addr) {
			wake(t, silent)
		}
	}()
	a := one(silent.Addr.String(), time.Minute)
	if c := Classify(a, time.Minute); c != OKSlowConnect || a.Retrans == 0 {
		t.Errorf("SYN resent: %s, %d retransmits, %+v", c, a.Retrans, a)
	}
	if c := Classify(a, 500*time.Millisecond); c != DialTimeout {
		t.Errorf("SYN resent, hasty client: %s", c)
	}
}

// awaitResent awaits that a SYN to an address was sent once more.
func awaitResent(t *testing.T, to netip.AddrPort) bool {
	a := to.Addr().As4()
	remote := fmt.Sprintf("%02X%02X%02X%02X:%04X", a[3], a[2], a[1], a[0], to.Port())
	for t.Context().Err() == nil {
		table, err := os.ReadFile("/proc/thread-self/net/tcp")
		if err != nil {
			t.Error(err)
			return false
		}
		for line := range strings.Lines(string(table)) { // sl local remote state queues timer resent ...
			if f := strings.Fields(line); len(f) > 6 && f[2] == remote && f[3] == "02" && strings.Trim(f[6], "0") != "" {
				return true
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}
