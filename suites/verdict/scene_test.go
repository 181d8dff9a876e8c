package verdict

import (
	"fmt"
	"net/netip"

	"github.com/plumbline/plumbline/fixtures/record"
)

// scene plays one rollout without a clock: a single replica moves from n1 to
// n2, the load balancer picks in turn, attempts come every 10 ms from 5 s
// before the deletion to 15 s after it. Times are ms after the deletion.
type scene struct {
	dead, gone  int64  // n1 stops forwarding; its pod object is gone
	hcnp        int64  // n1's health check port says 503
	down, up    int64  // n1 leaves, n2 joins the load balancer
	failure     string // what a direct connection to a dead node meets
	term        string // how HAProxy logs a connection to it
	terminating bool   // the old pod serves on after its deletion
}

const (
	deletion = 100 * s1 // the origin, CLOCK_MONOTONIC
	every    = 10 * ms
	service  = "ns/echo" // whose load balancer it is
)

func dropScene() scene {
	return scene{dead: 200, hcnp: 200, gone: 12000, down: 5200, up: 1200, failure: record.FailTimeout, term: "sC"}
}

func rejectScene() scene {
	s := dropScene()
	s.failure, s.term = "ECONNREFUSED", "SC"
	return s
}

func fallbackScene() scene {
	return scene{dead: 12000, hcnp: 200, gone: 12100, down: 5200, up: 1200, failure: "ECONNREFUSED", term: "SC", terminating: true}
}

func (sc scene) input() Input {
	in := Input{Settings: Settings{
		LB: service, Rollout: 1, Rate: 100, Timeout: 2500e6, Deadline: 10e9, Nodes: []string{"n1", "n2"}, Local: true, Connect: 5e9,
	}}
	turn := 0
	for i := range 2000 {
		t := -5000 + int64(i)*10 // ms
		a, c := sc.attempt(i, t, &turn)
		in.Attempts = append(in.Attempts, a)
		in.Conns = append(in.Conns, c)
		if i%5 == 0 {
			ctl := good(nil)
			ctl.Stream, ctl.Seq = record.Control, i/5
			in.Control = append(in.Control, ctl)
		}
	}
	in.Events = sc.events()
	return in
}

func (sc scene) attempt(i int, t int64, turn *int) (record.Attempt, record.Conn) {
	start := deletion + t*ms
	a := good(func(a *record.Attempt) {
		a.Seq, a.Intended, a.Start = i, start, start
		a.Connected, a.Wrote, a.FirstByte, a.End = start+ms, start+ms, start+2*ms, start+2*ms
		a.Src = netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(10000+i))
		a.Status, a.BodyOK = 200, true
	})
	c := record.Conn{LB: service, At: a.End, Accepted: a.Connected, Client: a.Src, Term: "--", DialMS: 1, TotalMS: 1}
	var up []string
	if t < sc.down {
		up = append(up, "n1")
	}
	if t >= sc.up {
		up = append(up, "n2")
	}
	if len(up) == 0 {
		c.Server, c.Term, c.DialMS = noServer, "SC", -1
		return sc.fail(a, record.FailEOF, 3), c
	}
	*turn++
	a.Node = up[*turn%len(up)]
	a.Pod = map[string]string{"n1": "echo-old", "n2": "echo-new"}[a.Node]
	c.Server = a.Node
	if a.Node == "n1" && t >= sc.dead {
		c.Term, c.DialMS = sc.term, -1
		if sc.failure == record.FailTimeout {
			return sc.fail(a, record.FailEOF, 5000), c
		}
		return sc.fail(a, record.FailEOF, 3), c
	}
	a.Terminating = sc.terminating && a.Node == "n1" && t >= 0
	return a, c
}

func (sc scene) fail(a record.Attempt, failure string, after int64) record.Attempt {
	a.Phase, a.Failure, a.End, a.FirstByte = record.PhaseRead, failure, a.Start+after*ms, 0
	a.Status, a.BodyOK, a.Pod, a.Node = 0, false, "", ""
	return a
}

func (sc scene) events() []record.Event {
	at := func(t int64, e record.Event) record.Event { e.At = deletion + t*ms; return e }
	polled := func(t int64, e record.Event) record.Event {
		e.At, e.After = deletion+(t+25)*ms, deletion+(t-25)*ms
		return e
	}
	ev := func(k record.Kind, state, node, pod string) record.Event {
		e := record.Event{Kind: k, State: state, Node: node, Pod: pod}
		if k == record.KindServer {
			e.LB = service
		}
		return e
	}
	return []record.Event{
		at(-6000, ev(record.KindPod, "ready", "n1", "echo-old")),
		at(-6000, ev(record.KindEndpoint, "ready,serving", "n1", "echo-old")),
		at(-6000, ev(record.KindServer, "UP", "n1", "")),
		at(-6000, ev(record.KindServer, "DOWN", "n2", "")),
		at(-5900, ev(record.KindHCNP, "200", "n1", "")),
		at(-5900, ev(record.KindHCNP, "503", "n2", "")),
		at(-5900, ev(record.KindNodePort, "ok", "n1", "")),
		at(-5900, ev(record.KindNodePort, sc.failure, "n2", "")),
		at(-3000, ev(record.KindAct, "restart", "", "")),
		at(-2900, ev(record.KindPod, "added", "n2", "echo-new")),
		at(-50, ev(record.KindPod, "ready", "n2", "echo-new")),
		at(-40, ev(record.KindEndpoint, "ready,serving", "n2", "echo-new")),
		polled(100, ev(record.KindNodePort, "ok", "n2", "")),
		polled(150, ev(record.KindHCNP, "200", "n2", "")),
		at(0, ev(record.KindPod, "deleting", "n1", "echo-old")),
		at(30, ev(record.KindEndpoint, "serving,terminating", "n1", "echo-old")),
		polled(sc.hcnp, ev(record.KindHCNP, "503", "n1", "")),
		polled(sc.dead, ev(record.KindNodePort, sc.failure, "n1", "")),
		at(sc.up, ev(record.KindServer, "UP", "n2", "")),
		at(sc.down, ev(record.KindServer, "DOWN", "n1", "")),
		at(sc.gone, ev(record.KindPod, "gone", "n1", "echo-old")),
	}
}

// sceneCase is a scene and its exact verdict.
type sceneCase struct {
	name    string
	in      Input
	lost    int
	slow    int
	fromOld int // answers of the terminating pod
	classes map[Class]int
	causes  map[Cause]int
	windows []string // node windows, then outages: "node start end lost/of"
}

func sceneCases() []sceneCase {
	hasty := dropScene().input()
	hasty.Settings.Timeout = 500e6
	early := fallbackScene()
	early.down, early.up = 1200, 2200 // evicted before the other is admitted
	short := fallbackScene()
	short.dead, short.gone = 4200, 4000
	notReady := rejectScene()
	return []sceneCase{
		{
			// All of [0.2 s, 1.2 s) and every second one of [1.2 s, 5.2 s).
			name: "ignore, drop", in: dropScene().input(), lost: 300,
			classes: map[Class]int{OK: 1700, RespTimeout: 300}, causes: map[Cause]int{CauseLagPodAlive: 300},
			windows: []string{"n1 0.20 5.19 300/300", " 0.20 1.19 100/100"},
		},
		{
			name: "ignore, drop, hasty client", in: hasty, lost: 300,
			classes: map[Class]int{OK: 1700, RespTimeout: 300}, causes: map[Cause]int{CauseLagPodAlive: 300},
			windows: []string{"n1 0.20 5.19 300/300", " 0.20 1.19 100/100"},
		},
		{
			name: "ignore, reject", in: rejectScene().input(), lost: 300,
			classes: map[Class]int{OK: 1700, EOFBeforeResp: 300}, causes: map[Cause]int{CauseLagPodAlive: 300},
			windows: []string{"n1 0.20 5.19 300/300", " 0.20 1.19 100/100"},
		},
		{
			// The old pod answers all of [0, 1.2 s) and every second one until 5.2 s.
			name: "fallback", in: fallbackScene().input(), lost: 0, fromOld: 320,
			classes: map[Class]int{OK: 1680, OKFromTerminating: 320},
		},
		{
			name: "fallback, evicted early", in: early.input(), lost: 100, fromOld: 120,
			classes: map[Class]int{OK: 1780, OKFromTerminating: 120, EOFBeforeResp: 100},
			causes:  map[Cause]int{CauseNoServer: 100},
			windows: []string{" 1.20 2.19 100/100", " 1.20 2.19 100/100"},
		},
		{
			// Every second one of [4.2 s, 5.2 s), when the pod has exited.
			name: "fallback, delay too short", in: short.input(), lost: 50, fromOld: 270,
			classes: map[Class]int{OK: 1680, OKFromTerminating: 270, EOFBeforeResp: 50},
			causes:  map[Cause]int{CauseLagPodGone: 50},
			windows: []string{"n1 4.21 5.19 50/50"},
		},
		{
			name: "readiness lost on SIGTERM", in: unready(notReady.input()), lost: 300,
			classes: map[Class]int{OK: 1700, EOFBeforeResp: 300}, causes: map[Cause]int{CauseLagUnready: 300},
			windows: []string{"n1 0.20 5.19 300/300", " 0.20 1.19 100/100"},
		},
		{
			name: "slow successes", in: slowed(fallbackScene().input()), lost: 0, slow: 2, fromOld: 320,
			classes: map[Class]int{OK: 1679, OKFromTerminating: 319, OKSlowConnect: 1, OKSlow: 1},
			windows: []string{" -4.00 -4.00 0/1", "n1 0.10 0.10 0/1"},
		},
	}
}

// unready turns the old endpoint unready with its deletion.
func unready(in Input) Input {
	for i, e := range in.Events {
		if e.State == "serving,terminating" {
			in.Events[i].State = "terminating"
		}
	}
	return in
}

// slowed makes one success before and one after the deletion slow.
func slowed(in Input) Input {
	a := &in.Attempts[100]
	a.Connected, a.End = a.Start+1001*ms, a.Start+1003*ms
	b := &in.Attempts[510]
	b.End = b.Start + 300*ms
	return in
}

func show(w Window) string {
	return fmt.Sprintf("%s %.2f %.2f %d/%d", w.Node, w.Start, w.End, w.Lost, w.Of)
}

func (c sceneCase) check(classify classifier) error {
	r := judge(c.in, classify)
	var windows []string
	for _, w := range append(append([]Window{}, r.NodeWindows...), r.Outages...) {
		windows = append(windows, show(w))
	}
	got := fmt.Sprint(r.Valid, r.Reasons, r.Warnings, r.Lost, r.Slow, r.FromTerminating, r.Classes, r.Causes, windows)
	causes := c.causes
	if causes == nil {
		causes = map[Cause]int{}
	}
	want := fmt.Sprint(true, []string(nil), []string(nil), c.lost, c.slow, c.fromOld, c.classes, causes, c.windows)
	if got != want {
		return fmt.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
	}
	return nil
}
