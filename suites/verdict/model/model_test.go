package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// base are the circumstances of the simulated figures in the literature of this
// model: 100/s, 3 nodes, interval 2 s, fall 3, a shutdown delay of 5 s.
func base(edit func(*Inputs)) Inputs {
	in := Inputs{
		Rate: 100, Semantics: Ignore,
		LB:          LB{Interval: 2 * sec, Fall: 3, Rise: 1, Check: 5 * ms},
		Propagation: 200 * ms, Kubelet: 50 * ms, Grace: 60 * sec,
	}
	if edit != nil {
		edit(&in)
	}
	return in
}

// TestManyNodesPublished holds the master equation against published figures,
// which a simulation of requests and checks had confirmed.
func TestManyNodesPublished(t *testing.T) {
	three := Transitions{Nodes: 3, Count: 3}
	for _, tc := range []struct {
		name string
		edit func(*Inputs)
		back time.Duration
		want float64
	}{
		{"ignore", nil, 0, 515.5},
		{"ignore, one failure suffices", func(in *Inputs) { in.LB.Fall = 1 }, 0, 115.5},
		{"ignore, interval 8", func(in *Inputs) { in.LB.Interval = 8 * sec }, 0, 2015.5},
		{"ignore, fast interval", func(in *Inputs) { in.LB.Fast, in.Delay = 500*ms, 2*sec-50*ms }, 0, 200.5},
		{"ignore, pod comes back", nil, 4500 * ms, 458.9},
		{"fallback, short", func(in *Inputs) { in.Semantics, in.Delay = Fallback, 5*sec }, 0, 33.4},
		{"fallback, long enough", func(in *Inputs) { in.Semantics, in.Delay = Fallback, 7*sec }, 0, 0},
		{"fallback, interval 8", func(in *Inputs) {
			in.Semantics, in.LB.Interval, in.Delay = Fallback, 8*sec, 15*sec-50*ms
		}, 0, 520.5},
		{"fallback, fast interval", func(in *Inputs) {
			in.Semantics, in.LB.Fast, in.Delay = Fallback, 500*ms, 2*sec-50*ms
		}, 0, 36.3},
		{"grace ends the delay", func(in *Inputs) {
			in.Semantics, in.PreStop, in.Delay, in.Grace = Fallback, 20*sec, 20*sec, 5*sec
		}, 0, 33.4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := three
			tr.Back = tc.back
			p, err := ManyNodes(base(tc.edit), tr)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(p.Mean-tc.want) > 0.06 {
				t.Errorf("mean %.2f, want %.1f", p.Mean, tc.want)
			}
		})
	}
}

func TestManyNodesSpread(t *testing.T) {
	in := base(func(in *Inputs) { in.LB.Random = true })
	p, err := ManyNodes(in, Transitions{Nodes: 3, Count: 3})
	if err != nil {
		t.Fatal(err)
	}
	if sd := math.Sqrt(p.Var); math.Abs(sd-38.1) > 0.1 {
		t.Errorf("deviation with random picks %.2f, want 38.1", sd)
	}
	in.LB.Random = false
	p, err = ManyNodes(in, Transitions{Nodes: 3, Count: 3})
	if err != nil {
		t.Fatal(err)
	}
	if want := 3 * math.Pow(100.0/3, 2) * 4 / 12; math.Abs(p.Var-want) > 0.01 {
		t.Errorf("variance with round robin %.3f, want lambda^2/n^2 I^2/12 per transition = %.3f", p.Var, want)
	}
}

// TestPresets: mean window, worst window and safe delay of common profiles.
func TestPresets(t *testing.T) {
	for _, tc := range []struct {
		name              string
		interval          time.Duration
		fall              int
		mean, worst, safe float64
	}{
		{"haproxy", 2 * sec, 3, 5, 6, 6},
		{"envoy ejects at once", 2 * sec, 1, 1, 2, 2},
		{"azure", 5 * sec, 2, 7.5, 10, 10},
		{"gcp", 8 * sec, 3, 20, 24, 24},
		{"aws nlb", 10 * sec, 3, 25, 30, 30},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Inputs{Rate: 1, Semantics: Ignore, LB: LB{Interval: tc.interval, Fall: tc.fall, Rise: 1}}
			p, err := ManyNodes(in, Transitions{Nodes: 1, Count: 1})
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(p.Mean-tc.mean) > 1e-9 || p.Max != tc.worst || p.SafeDelay != tc.safe {
				t.Errorf("mean %v worst %v safe %v, want %v %v %v", p.Mean, p.Max, p.SafeDelay, tc.mean, tc.worst, tc.safe)
			}
		})
	}
}

// TestSingleReplicaClosedForm: with F >= 2 and R = 1 the old node always
// outlasts the admission, so D = lambda/2 (L + (L_up - m)+).
func TestSingleReplicaClosedForm(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Inputs)
		mean float64
		vari float64
	}{
		{"at once", func(in *Inputs) { in.Delay = 12 * sec }, 50 * (5.005 + 1.005), 2500 * (4.0/12 + 4.0/12)},
		{"deleted long after it was ready", func(in *Inputs) { in.Delay, in.MinReady = 12*sec, 3*sec }, 50 * 5.005, 2500 * 4.0 / 12},
		{"pod dies before anyone hears of it", nil, 100*0.15 + 50*(5.005+1.005), 2500 * (4.0/12 + 4.0/12)},
		{"delay does not matter", func(in *Inputs) { in.Delay = 50 * sec }, 50 * (5.005 + 1.005), 2500 * (4.0/12 + 4.0/12)},
		{"down interval", func(in *Inputs) { in.Delay, in.LB.Down = 12*sec, 1*sec }, 50 * (5.005 + 0.505), 2500 * (4.0/12 + 1.0/12)},
		{"fallback", func(in *Inputs) { in.Semantics, in.Delay = Fallback, 12*sec }, 0, 0},
		{"fallback at the safe delay", func(in *Inputs) { in.Semantics, in.Delay = Fallback, 6155*ms }, 0, 0},
		{"fallback, short by one interval", func(in *Inputs) { in.Semantics, in.Delay = Fallback, 4155*ms }, 50 * 1, 2500 * 4.0 / 12},
		{"unready on SIGTERM defeats fallback", func(in *Inputs) {
			in.Semantics, in.Delay, in.UnreadyAfter = Fallback, 12*sec, sec
		}, 50*(0.2+5.005-1.25) + 50*math.Pow(2.205-1.25, 2)/4, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := SingleReplica(base(tc.edit), 1)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(p.Mean-tc.mean) > 0.01 {
				t.Errorf("mean %.3f, want %.3f", p.Mean, tc.mean)
			}
			if tc.vari >= 0 && math.Abs(p.Var-tc.vari) > 0.05 {
				t.Errorf("variance %.3f, want %.3f", p.Var, tc.vari)
			}
		})
	}
}

// TestSingleReplicaBands: no wider than mean +- z sqrt(k (lambda/2)^2 (I^2/12 + I_down^2/12)).
func TestSingleReplicaBands(t *testing.T) {
	in := base(func(in *Inputs) { in.Delay, in.Slack = 12*sec, 50*ms })
	for _, k := range []int{1, 3, 30} {
		p, err := SingleReplica(in, k)
		if err != nil {
			t.Fatal(err)
		}
		width := 2 * z999 * math.Sqrt(float64(k)*2500*8/12)
		t.Logf("k=%d mean %.1f 95%% [%.0f %.0f] 99.9%% [%.0f %.0f] width %.0f of %.0f", k, p.Mean,
			p.Band95.Low, p.Band95.High, p.Band999.Low, p.Band999.High, p.Band999.Width(), width)
		if p.Band999.Width() > width+2 { // whole requests
			t.Errorf("k=%d: width %.1f, want at most %.1f", k, p.Band999.Width(), width)
		}
		if !p.Band999.Contains(p.Mean) || p.Band999.Width() < p.Band95.Width() || p.Band95.Width() <= 0 {
			t.Errorf("k=%d: bands %+v %+v around %.1f", k, p.Band95, p.Band999, p.Mean)
		}
	}
	one, err := SingleReplica(in, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Band{195, 406}); one.Band999 != want {
		t.Errorf("k=1: band %+v, want the phases' own bounds and slack %+v", one.Band999, want)
	}
	in.Semantics = Fallback
	safe, err := SingleReplica(in, 30)
	if err != nil {
		t.Fatal(err)
	}
	if safe.Band999 != (Band{}) {
		t.Errorf("fallback: band %+v, want 0 to 0: slack must not excuse a loss", safe.Band999)
	}
}

// TestPhaseOffsets is the documented spread of one balancer's two phases, tied
// by an offset: half and double the independent variance at the extremes, and
// the independent one on average.
func TestPhaseOffsets(t *testing.T) {
	p, err := SingleReplica(base(func(in *Inputs) { in.Delay = 12 * sec }), 1)
	if err != nil {
		t.Fatal(err)
	}
	const interval, steps = 2.0, 200
	tied := func(offset float64) float64 {
		m := integrate1(interval, func(u float64) (float64, float64) {
			return 100 * (u + math.Mod(u+offset, interval)) / 2, 0
		})
		return m.square - m.mean*m.mean
	}
	average := 0.0
	for i := range steps {
		average += tied(interval*(float64(i)+0.5)/steps) / steps
	}
	for _, tc := range []struct {
		name           string
		variance, want float64 // want: the deviation
	}{
		{"offset of half an interval", tied(interval / 2), 28.9},
		{"independent", p.Var, 40.8},
		{"average over all offsets", average, 40.8},
		{"in phase", tied(0), 57.7},
	} {
		if sd := math.Sqrt(tc.variance); math.Abs(sd-tc.want) > 0.05 {
			t.Errorf("%s: deviation %.2f, want %.1f", tc.name, sd, tc.want)
		}
	}
}

func TestEarlyEviction(t *testing.T) {
	in := base(func(in *Inputs) { in.Semantics, in.Delay, in.LB.Rise = Fallback, 30*sec, 4 })
	p, err := SingleReplica(in, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p.Mean <= 0 || p.Note == "" {
		t.Errorf("mean %.1f, note %q: want a loss and a word about it", p.Mean, p.Note)
	}
}

// TestSingleReplicaSimulated plays the checks and the requests one by one, with
// a fixed seed, and compares means.
func TestSingleReplicaSimulated(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Inputs)
	}{
		{"ignore", func(in *Inputs) { in.Delay = 12 * sec }},
		{"ignore, no delay, min ready", func(in *Inputs) { in.MinReady = sec }},
		{"ignore, fall 1 rise 2", func(in *Inputs) { in.Delay, in.LB.Fall, in.LB.Rise = 12*sec, 1, 2 }},
		{"fallback, too short", func(in *Inputs) { in.Semantics, in.Delay = Fallback, 5*sec }},
		{"fallback, evicted early", func(in *Inputs) { in.Semantics, in.Delay, in.LB.Fall, in.LB.Rise = Fallback, 12*sec, 1, 3 }},
		{"random picks", func(in *Inputs) { in.Delay, in.LB.Random = 12*sec, true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := base(tc.edit)
			p, err := SingleReplica(in, 1)
			if err != nil {
				t.Fatal(err)
			}
			const trials = 1500
			rnd := rand.New(rand.NewPCG(1, 2))
			var sum, square float64
			for range trials {
				lost := play(in, rnd)
				sum += lost
				square += lost * lost
			}
			mean := sum / trials
			vari := square/trials - mean*mean
			if off := math.Abs(mean - p.Mean); off > 4*math.Sqrt(max(p.Var, 1)/trials)+0.5 {
				t.Errorf("simulated mean %.1f, predicted %.1f", mean, p.Mean)
			}
			if p.Var > 20 && math.Abs(vari/p.Var-1) > 0.15 {
				t.Errorf("simulated variance %.0f, predicted %.0f", vari, p.Var)
			}
		})
	}
}

// TestBandsSimulated: of many series of rollouts that are played request by request, 95 and
// 99.9 % lie within the bands, also where the sum is skewed and of few rollouts.
func TestBandsSimulated(t *testing.T) {
	for _, tc := range []struct {
		name string
		k    int
		edit func(*Inputs)
	}{
		{"ignore", 1, func(in *Inputs) { in.Delay = 12 * sec }},
		{"ignore", 3, func(in *Inputs) { in.Delay = 12 * sec }},
		{"fallback, fall 1", 1, func(in *Inputs) { in.Semantics, in.Delay, in.LB.Fall = Fallback, 12*sec, 1 }},
		{"fallback, fall 1", 3, func(in *Inputs) { in.Semantics, in.Delay, in.LB.Fall = Fallback, 12*sec, 1 }},
		{"fallback, hardly too short", 1, func(in *Inputs) { in.Semantics, in.Delay = Fallback, 5500*ms }},
		{"ignore, fall 1", 2, func(in *Inputs) { in.Delay, in.LB.Fall = 12*sec, 1 }},
	} {
		t.Run(fmt.Sprintf("%s, %d", tc.name, tc.k), func(t *testing.T) {
			in := base(tc.edit)
			p, err := SingleReplica(in, tc.k)
			if err != nil {
				t.Fatal(err)
			}
			const series = 1000
			rnd := rand.New(rand.NewPCG(3, 4))
			within95, within999 := 0, 0
			for range series {
				lost := 0.0
				for range tc.k {
					lost += play(in, rnd)
				}
				const one = 1 // request: arrivals are whole
				if lost >= p.Band95.Low-one && lost <= p.Band95.High+one {
					within95++
				}
				if lost >= p.Band999.Low-one && lost <= p.Band999.High+one {
					within999++
				}
			}
			t.Logf("mean %.1f, 95 %% %+v holds %.1f %%, 99.9 %% %+v holds %.1f %%", p.Mean, p.Band95, float64(within95)*100/series, p.Band999, float64(within999)*100/series)
			if within95 < 930 || within999 < 994 {
				t.Errorf("within 95 %%: %d of %d, within 99.9 %%: %d", within95, series, within999)
			}
		})
	}
}

// play is one rollout: two servers checked in a loop, requests every 1/lambda.
func play(in Inputs, rnd *rand.Rand) float64 {
	d := in.Propagation.Seconds()
	flip := d - (in.MinReady + in.Controller).Seconds()
	down := checkUntil(in.LB, rnd, in.LB.Interval, d, in.LB.Fall)
	up := checkUntil(in.LB, rnd, in.LB.down(), flip, in.LB.Rise)
	dead := in.Serves().Seconds()
	if in.Semantics == Ignore {
		dead = min(dead, d)
	}
	lost, turn := 0.0, 0
	for at := -5.0 + rnd.Float64()/in.Rate; at < 40; at += 1 / in.Rate {
		var servers []bool // dead or not
		if at < down {
			servers = append(servers, at >= dead)
		}
		if at >= up {
			servers = append(servers, false)
		}
		turn++
		if in.LB.Random {
			turn = rnd.IntN(2)
		}
		if len(servers) == 0 || servers[turn%len(servers)] {
			lost++
		}
	}
	return lost
}

// checkUntil is when n checks in a row have seen what is so from flip on.
func checkUntil(lb LB, rnd *rand.Rand, slow time.Duration, flip float64, n int) float64 {
	at := flip - 3*slow.Seconds() + rnd.Float64()*slow.Seconds()
	for seen := 0; ; {
		wait := slow.Seconds()
		if at >= flip {
			if seen++; seen == n {
				return at + lb.Check.Seconds()
			}
			wait = lb.fast().Seconds()
		}
		at += wait
	}
}

func TestBadInputs(t *testing.T) {
	for name, edit := range map[string]func(*Inputs){
		"rate":      func(in *Inputs) { in.Rate = 0 },
		"nan":       func(in *Inputs) { in.Rate = math.NaN() },
		"interval":  func(in *Inputs) { in.LB.Interval = 0 },
		"fall":      func(in *Inputs) { in.LB.Fall = 0 },
		"rise":      func(in *Inputs) { in.LB.Rise = 0 },
		"semantics": func(in *Inputs) { in.Semantics = "both" },
		"negative":  func(in *Inputs) { in.Delay = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := SingleReplica(base(edit), 1); err == nil {
				t.Error("single replica: no error")
			}
			if _, err := ManyNodes(base(edit), Transitions{Nodes: 1, Count: 1}); err == nil {
				t.Error("many nodes: no error")
			}
		})
	}
	if _, err := ManyNodes(base(nil), Transitions{}); err == nil {
		t.Error("no nodes: no error")
	}
}
