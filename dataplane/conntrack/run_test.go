package conntrack

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// running are Flows of a kernel that is none, on synthetic time.
func running(t *testing.T, k *fake, resetTCP time.Duration, f func(*Flows)) {
	synctest.Test(t, func(t *testing.T) {
		flows, _ := faulty(k)
		flows.resetTCP = resetTCP
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- flows.Run(ctx) }()
		f(flows)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// sleep lets time pass, in which Run works. It is the test's turn until then: all that it has done
// with the fake comes before what Run does with it afterwards.
func (k *fake) sleep(d time.Duration) {
	k.turn()
	time.Sleep(d)
}

// said are the questions since the last call.
func (k *fake) said() string {
	synctest.Wait()
	out := strings.Join(k.asked, ", ")
	k.asked = nil
	return out
}

func unready(to ...string) func(*plan.Frontend) {
	return func(f *plan.Frontend) { f.Unready = tcp("10.96.0.1:80", to...).Outside.Endpoints }
}

// An endpoint that is in a slice, in whatever state, keeps its connections, and so does one
// that is back within the grace time, or named by another Service.
func TestResetAfterGrace(t *testing.T) {
	const a, b = "10.0.0.1:80", "10.0.0.2:80"
	both := planOf(tcp("10.96.0.1:80", a, b))
	one := planOf(tcp("10.96.0.1:80", b))
	for _, tc := range []struct {
		name  string
		plans []*plan.Plan // a second apart
		reset time.Duration
	}{
		{"gone", []*plan.Plan{both, one}, time.Second + Grace},
		{"the Service with it", []*plan.Plan{both, planOf()}, time.Second + Grace},
		{"the frontend first", []*plan.Plan{planOf(tcp("10.96.0.1:80", a, b), tcp("10.96.0.2:80", a, b)), planOf(tcp("10.96.0.2:80", a, b)), planOf(tcp("10.96.0.2:80", b))}, 2*time.Second + Grace},
		{"unready", []*plan.Plan{both, planOf(with(tcp("10.96.0.1:80", b), unready(a)))}, 0},
		{"unready, then gone", []*plan.Plan{both, planOf(with(tcp("10.96.0.1:80", b), unready(a))), one}, 2*time.Second + Grace},
		{"gone from an unready state, and back in it", []*plan.Plan{planOf(with(tcp("10.96.0.1:80", b), unready(a))), one, planOf(with(tcp("10.96.0.1:80", b), unready(a)))}, 0},
		{"all are unready", []*plan.Plan{both, planOf(with(tcp("10.96.0.1:80"), unready(a, b)))}, 0},
		{"back in time", []*plan.Plan{both, one, both}, 0},
		{"back in time as unready", []*plan.Plan{both, one, planOf(with(tcp("10.96.0.1:80", b), unready(a)))}, 0},
		{"gone, back and gone", []*plan.Plan{both, one, both, one}, 3*time.Second + Grace},
		{"another Service's", []*plan.Plan{both, planOf(tcp("10.96.0.1:80", b), tcp("10.96.0.2:80", a))}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := &fake{flows: []flow{fakeFlow(1, objects.TCP, "10.96.0.1:80", a)}}
			running(t, k, Grace, func(f *Flows) {
				f.Changed(nil, tc.plans[0], nil)
				for i, p := range tc.plans[1:] {
					k.sleep(time.Second)
					f.Changed(tc.plans[i], p, nil)
				}
				begin := time.Now().Add(-time.Duration(len(tc.plans)-1) * time.Second)
				if tc.reset > 0 {
					k.sleep(time.Until(begin.Add(tc.reset - time.Millisecond)))
					if synctest.Wait(); k.resets != 0 {
						t.Error("reset before the grace time was over")
					}
					k.sleep(time.Millisecond)
				} else {
					k.sleep(time.Hour)
				}
				synctest.Wait()
				if want := map[bool]int{true: 1}[tc.reset > 0]; k.resets != want {
					t.Errorf("%d resets, want %d", k.resets, want)
				}
			})
		})
	}
}

// Changes that come during a walk are one afterwards, and lose nothing: what each of them
// took away is asked for.
func TestChangesDuringWalk(t *testing.T) {
	const a, b, c = "10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"
	k := &fake{flows: []flow{
		fakeFlow(1, objects.UDP, "10.96.0.1:53", a), fakeFlow(2, objects.UDP, "10.96.0.1:53", b), fakeFlow(3, objects.UDP, "10.96.0.1:53", c),
		fakeFlow(4, objects.UDP, "10.96.0.2:53", b), fakeFlow(5, objects.UDP, "10.96.0.9:53", b),
	}}
	running(t, k, Grace, func(f *Flows) {
		f.Changed(nil, planOf(udp("10.96.0.1:53", a, b, c), udp("10.96.0.2:53", a, b, c)), nil)
		if got := k.said(); got != "udp" {
			t.Fatalf("asked %s at the start", got)
		}
		walking := make(chan struct{})
		k.walk = func() { <-walking }
		f.Changed(planOf(udp("10.96.0.1:53", a, b, c)), planOf(udp("10.96.0.1:53", b, c)), nil)
		synctest.Wait()
		f.Changed(planOf(udp("10.96.0.1:53", b, c)), planOf(udp("10.96.0.1:53", c)), nil)
		f.Changed(planOf(udp("10.96.0.1:53", c)), planOf(udp("10.96.0.1:53", a, c)), nil)
		// Between these two a flow of the second Service had an endpoint that it has
		// neither before nor after.
		f.Changed(planOf(udp("10.96.0.2:53", a, b, c)), planOf(udp("10.96.0.2:53", "10.0.0.4:53")), nil)
		k.flows = append(k.flows, fakeFlow(6, objects.UDP, "10.96.0.2:53", "10.0.0.4:53"))
		f.Changed(planOf(udp("10.96.0.2:53", "10.0.0.4:53")), planOf(), nil)
		close(walking)
		if diff := cmp.Diff("udp by 10.0.0.1:53, udp by 10.0.0.1:53, udp by 10.0.0.2:53, udp by 10.0.0.3:53, udp to 10.96.0.2:53", k.said()); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		slices.Sort(k.removed)
		// The first flow's endpoint was back before anything was deleted.
		if diff := cmp.Diff([]uint16{2, 4, 6}, k.removed); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
	})
}

// While changes follow each other, walks take a twentieth of the time, and what they are to find
// is found after the last; the first change after a silence waits for nothing.
func TestRestsAfterWalk(t *testing.T) {
	const a, b, c = "10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"
	const walk = 10 * time.Millisecond
	k := &fake{}
	running(t, k, 0, func(f *Flows) {
		k.walk = func() { time.Sleep(walk) }
		f.Changed(nil, planOf(udp("10.96.0.1:53", a, c)), nil)
		k.sleep(time.Minute)
		k.said()
		now, then := planOf(udp("10.96.0.1:53", b, c)), planOf(udp("10.96.0.1:53", a, c))
		k.flows = []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a)}
		f.Changed(then, now, nil)
		k.sleep(walk + time.Millisecond)
		if synctest.Wait(); !slices.Equal(k.removed, []uint16{1}) {
			t.Errorf("removed %d after one walk, want 1", k.removed)
		}
		for range 1000 {
			f.Changed(now, then, nil)
			now, then = then, now
			k.sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := len(k.asked); n < 4 || n > 12 { // one or two questions a walk
			t.Errorf("%d questions in a second", n)
		}
		k.flows = []flow{fakeFlow(2, objects.UDP, "10.96.0.1:53", c)}
		f.Changed(now, planOf(udp("10.96.0.1:53", a)), nil)
		k.sleep(2 * (restFactor + 1) * 2 * walk)
		if synctest.Wait(); !slices.Equal(k.removed, []uint16{1, 2}) {
			t.Errorf("removed %d at the end, want 1 and 2", k.removed)
		}
	})
}

// What a walk finds may be of rules that nobody has told of yet: nothing is deleted before
// their change is known.
func TestWaitsForRulesUnderWay(t *testing.T) {
	const a, b = "10.0.0.1:53", "10.0.0.2:53"
	k := &fake{}
	running(t, k, 0, func(f *Flows) {
		f.Changed(nil, planOf(udp("10.96.0.1:53", a, b)), nil)
		synctest.Wait()
		k.flows = []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a)}
		k.walk = func() {
			k.walk = nil
			f.Changing()
		}
		f.Changed(planOf(udp("10.96.0.1:53", a, b)), planOf(udp("10.96.0.1:53", b)), nil)
		k.sleep(time.Minute)
		if synctest.Wait(); len(k.removed) > 0 {
			t.Fatal("deleted while the rules change")
		}
		f.Changed(planOf(udp("10.96.0.1:53", b)), planOf(udp("10.96.0.1:53", a, b)), nil)
		if synctest.Wait(); len(k.removed) > 0 {
			t.Error("deleted though the endpoint is back")
		}
		f.Changed(planOf(udp("10.96.0.1:53", a, b)), planOf(udp("10.96.0.1:53", b)), nil)
		if synctest.Wait(); !slices.Equal(k.removed, []uint16{1}) {
			t.Errorf("removed %d, want 1", k.removed)
		}
	})
}

// A walk that fails is tried again, less and less often, and what it was to find is found.
func TestRetry(t *testing.T) {
	t.Parallel()
	const a, b = "10.0.0.1:53", "10.0.0.2:53"
	k := &fake{flows: []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a)}}
	running(t, k, 0, func(f *Flows) {
		f.Changed(nil, planOf(udp("10.96.0.1:53", a)), nil)
		synctest.Wait()
		k.asked, k.errs = nil, slices.Repeat([]error{unix.ENOBUFS}, 12)
		f.Changed(planOf(udp("10.96.0.1:53", a)), planOf(), nil)
		var at []time.Duration
		begin := time.Now()
		for n := 0; time.Since(begin) < time.Hour; k.sleep(time.Millisecond) {
			synctest.Wait()
			if len(k.asked) > n {
				n = len(k.asked)
				at = append(at, time.Since(begin).Round(100*time.Millisecond))
			}
		}
		want := []time.Duration{0, 100, 300, 700, 1500, 3100, 6300, 12700, 22700, 32700, 42700, 52700, 62700}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("tried at (-want +got):\n%s", diff)
		}
		if s := f.Stats(); s.Failures != 12 || s.Deleted != 1 {
			t.Errorf("%+v, want 12 failures and one deleted", s)
		}
	})
}

// Of a frontend that is new and changes during a walk all flows are in doubt still, and a
// complete change during one is judged in full by the next.
func TestMoreDuringWalk(t *testing.T) {
	const a, b = "10.0.0.1:53", "10.0.0.2:53"
	k := &fake{flows: []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a)}}
	running(t, k, Grace, func(f *Flows) {
		f.Changed(nil, planOf(udp("10.96.0.1:53", a, b)), nil)
		k.said()
		walk := func(meanwhile func()) string {
			walking := make(chan struct{})
			k.walk = func() { <-walking }
			f.Changed(planOf(udp("10.96.0.1:53", a, b)), planOf(udp("10.96.0.1:53", b)), nil)
			synctest.Wait()
			meanwhile()
			close(walking)
			said := k.said()
			f.Changed(planOf(udp("10.96.0.1:53", b)), planOf(udp("10.96.0.1:53", a, b)), nil)
			synctest.Wait()
			k.walk = nil
			return said
		}
		got := walk(func() {
			f.Changed(planOf(), planOf(udp("10.96.0.3:53", a)), nil)
			f.Changed(planOf(udp("10.96.0.3:53", a)), planOf(udp("10.96.0.3:53", b)), nil)
		})
		if want := "udp by 10.0.0.1:53, udp by 10.0.0.1:53, udp to 10.96.0.3:53"; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		k.flows = []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a)}
		got = walk(func() { f.Changed(nil, planOf(udp("10.96.0.1:53", b), udp("10.96.0.3:53", b)), nil) })
		if want := "udp by 10.0.0.1:53, udp"; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
}

// A flow that the kernel does not delete keeps no other from being ended, is tried by itself
// with longer and longer pauses whatever else changes, and no more once it is gone.
func TestKeptByKernel(t *testing.T) {
	for _, protocol := range []objects.Protocol{objects.UDP, objects.TCP} {
		t.Run(protocol.String(), func(t *testing.T) {
			const a, b, c = "10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"
			front := func(to ...string) *plan.Plan { return planOf(text(plan.ClusterIP, protocol, "10.96.0.1:53", to...)) }
			other := func(to ...string) *plan.Plan { return planOf(text(plan.ClusterIP, protocol, "10.96.0.2:53", to...)) }
			k := &fake{offloaded: map[uint16]bool{1: true, 4: true}}
			for i, to := range []string{a, a, b, c} {
				k.flows = append(k.flows, fakeFlow(uint16(1+i), protocol, "10.96.0.1:53", to))
			}
			running(t, k, time.Millisecond, func(f *Flows) {
				f.Changed(nil, planOf(text(plan.ClusterIP, protocol, "10.96.0.1:53", a, b, c), text(plan.ClusterIP, protocol, "10.96.0.2:53", a, c, "10.0.0.4:53")), nil)
				k.said()
				f.Changed(other(a, c, "10.0.0.4:53"), other(c), nil)
				f.Changed(front(a, b, c), front(b, c), nil)
				k.sleep(2 * time.Millisecond)
				if synctest.Wait(); !slices.Equal(k.removed, []uint16{2}) {
					t.Errorf("removed %d, want 2", k.removed)
				}
				k.said()
				for range 30 { // each takes an endpoint away that no flow has
					k.sleep(time.Second)
					f.Changed(other(c), other(c, "10.0.0.5:53"), nil)
					k.sleep(time.Second)
					f.Changed(other(c, "10.0.0.5:53"), other(c), nil)
				}
				k.sleep(2 * time.Millisecond)
				if said, want := k.said(), strings.TrimSuffix(strings.Repeat(protocol.String()+" by 10.0.0.5:53, ", 30), ", "); said != want {
					t.Errorf("asked %s, want %s", said, want)
				}
				if k.tried < 8 || k.tried > 14 { // at 0, 0.1, 0.3, 0.7, ... 12.7 s, and then each 10 s
					t.Errorf("%d attempts in a minute", k.tried)
				}
				f.Changed(front(b, c), front(c), nil)
				k.sleep(2 * time.Millisecond)
				if synctest.Wait(); !slices.Equal(k.removed, []uint16{2, 3}) {
					t.Errorf("removed %d, want the third as well, at once", k.removed)
				}
				f.Changed(front(c), planOf(), nil)
				f.Changed(other(c), planOf(), nil)
				k.sleep(time.Minute)
				synctest.Wait()
				k.offloaded = nil
				k.sleep(retryMost)
				if synctest.Wait(); len(k.removed) != 4 {
					t.Errorf("removed %d, want all", k.removed)
				}
				k.said()
				k.sleep(time.Minute)
				if got := k.said(); got != "" || len(f.kept) > 0 {
					t.Errorf("asked %s, %d kept when nothing is left", got, len(f.kept))
				}
			})
		})
	}
}

// What the kernel keeps is stale by the rules of the attempt, or left alone.
func TestKeptNoMore(t *testing.T) {
	for _, protocol := range []objects.Protocol{objects.UDP, objects.TCP} {
		t.Run(protocol.String(), func(t *testing.T) {
			const a, b = "10.0.0.1:53", "10.0.0.2:53"
			front := func(to ...string) *plan.Plan { return planOf(text(plan.ClusterIP, protocol, "10.96.0.1:53", to...)) }
			k := &fake{offloaded: map[uint16]bool{1: true}, flows: []flow{fakeFlow(1, protocol, "10.96.0.1:53", a)}}
			running(t, k, time.Millisecond, func(f *Flows) {
				f.Changed(nil, front(a, b), nil)
				f.Changed(front(a, b), front(b), nil)
				k.sleep(time.Second)
				if synctest.Wait(); k.tried == 0 {
					t.Error("nobody tried to delete it")
				}
				f.Changed(front(b), front(a, b), nil) // it is good again
				k.offloaded = nil
				k.sleep(time.Minute)
				if synctest.Wait(); len(k.removed) > 0 {
					t.Errorf("removed %d that has an endpoint again", k.removed)
				}
			})
		})
	}
}

// A connection that closes by itself while the kernel keeps it is left alone, though it is one
// that the kernel would delete by now; one that has ended is looked for no more.
func TestKeptCloses(t *testing.T) {
	const a, b = "10.0.0.1:80", "10.0.0.2:80"
	for _, becomes := range []string{"closes", "is gone", "stays open"} {
		t.Run(becomes, func(t *testing.T) {
			k := &fake{offloaded: map[uint16]bool{1: true}, flows: []flow{fakeFlow(1, objects.TCP, "10.96.0.1:80", a)}}
			running(t, k, time.Millisecond, func(f *Flows) {
				f.Changed(nil, planOf(tcp("10.96.0.1:80", a, b)), nil)
				f.Changed(planOf(tcp("10.96.0.1:80", a, b)), planOf(tcp("10.96.0.1:80", b)), nil)
				k.sleep(time.Second)
				if synctest.Wait(); k.tried == 0 {
					t.Error("nobody tried to delete it")
				}
				k.offloaded = nil
				switch becomes {
				case "closes":
					k.flows[0].state = tcpCloseWait + 2 // "time wait"
				case "is gone":
					k.flows = nil
				}
				k.sleep(time.Minute)
				synctest.Wait()
				if want := map[string]int{"stays open": 1}[becomes]; k.resets != want || len(f.kept) > 0 {
					t.Errorf("%d resets, want %d; %d kept", k.resets, want, len(f.kept))
				}
			})
		})
	}
}

// What the kernel keeps waits while nobody can judge it: of a frontend that is set aside, or
// with an endpoint that is gone anew, for less than the grace time.
func TestKeptWaits(t *testing.T) {
	const a, b = "10.0.0.1:53", "10.0.0.2:53"
	for _, protocol := range []objects.Protocol{objects.UDP, objects.TCP} {
		t.Run(protocol.String(), func(t *testing.T) {
			front := func(to ...string) *plan.Plan { return planOf(text(plan.ClusterIP, protocol, "10.96.0.1:53", to...)) }
			k := &fake{offloaded: map[uint16]bool{1: true}, flows: []flow{fakeFlow(1, protocol, "10.96.0.1:53", a)}}
			running(t, k, time.Minute, func(f *Flows) {
				f.Changed(nil, front(a, b), nil)
				f.Changed(front(a, b), front(b), nil)
				k.sleep(2 * time.Minute)
				if synctest.Wait(); k.tried == 0 {
					t.Fatal("nobody tried to delete it")
				}
				k.offloaded = nil
				if protocol == objects.UDP {
					f.Changed(front(b), front("10.0.0.3:53"), map[plan.Key]error{text(plan.ClusterIP, protocol, "10.96.0.1:53").Key: unix.EINVAL})
				} else {
					f.Changed(front(b), front(a, b), nil)
					f.Changed(front(a, b), front(b), nil)
				}
				k.sleep(50 * time.Second)
				if synctest.Wait(); len(k.removed) > 0 {
					t.Error("ended while nobody can judge it")
				}
				if protocol == objects.UDP {
					f.Changed(planOf(), planOf(), nil)
				}
				k.sleep(time.Minute)
				if synctest.Wait(); len(k.removed) != 1 || len(f.kept) > 0 {
					t.Errorf("removed %d, %d kept", k.removed, len(f.kept))
				}
			})
		})
	}
}

// While walks fail, changes are taken in and wait for the next one.
func TestChangesDuringRetry(t *testing.T) {
	const a, b, c = "10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"
	k := &fake{flows: []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a), fakeFlow(2, objects.UDP, "10.96.0.1:53", b)}}
	running(t, k, 0, func(f *Flows) {
		f.Changed(nil, planOf(udp("10.96.0.1:53", a, b, c)), nil)
		k.said()
		k.errs = slices.Repeat([]error{unix.ENOBUFS}, 4) // at 0, 100, 300 and 700 ms
		f.Changed(planOf(udp("10.96.0.1:53", a, b, c)), planOf(udp("10.96.0.1:53", b, c)), nil)
		for i := range 1000 {
			k.sleep(time.Millisecond)
			if i%2 == 0 {
				f.Changed(planOf(udp("10.96.0.1:53", b, c)), planOf(udp("10.96.0.1:53", c)), nil)
			} else {
				f.Changed(planOf(udp("10.96.0.1:53", c)), planOf(udp("10.96.0.1:53", b, c)), nil)
			}
		}
		f.Changed(planOf(udp("10.96.0.1:53", b, c)), planOf(udp("10.96.0.1:53", c)), nil)
		synctest.Wait()
		if n := len(k.asked); n != 4 {
			t.Errorf("%d walks in a second, want 4", n)
		}
		k.sleep(time.Second)
		synctest.Wait()
		if slices.Sort(k.removed); !slices.Equal(k.removed, []uint16{1, 2}) {
			t.Errorf("removed %d, want both", k.removed)
		}
	})
}

// What the kernel refused is as it was: neither is a flow of it stale, nor is an endpoint
// gone that it would have. What was in doubt before is looked at when that has changed.
func TestRefused(t *testing.T) {
	const a, b, c = "10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"
	refused := map[plan.Key]error{udp("10.96.0.1:53").Key: unix.EINVAL, tcp("10.96.0.1:53").Key: unix.EINVAL}
	both := func(to ...string) *plan.Plan {
		p := planOf(udp("10.96.0.1:53", to...), tcp("10.96.0.1:53", to...), tcp("10.96.0.2:53", b))
		return p
	}
	all := []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a), fakeFlow(2, objects.TCP, "10.96.0.1:53", a), fakeFlow(3, objects.TCP, "10.96.0.2:53", b)}
	for _, tc := range []struct {
		name     string
		old, new *plan.Plan
	}{
		{"complete", nil, both(a, b)},
		{"complete, with another endpoint", nil, both(b)},
		{"a change", both(a, b), both(b)},
		{"the other Service lets go", planOf(tcp("10.96.0.2:53", b)), planOf(tcp("10.96.0.2:53", c))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := &fake{flows: slices.Clone(all)}
			running(t, k, Grace, func(f *Flows) {
				f.Changed(nil, both(a, b), nil)
				f.Changed(tc.old, tc.new, refused)
				k.sleep(time.Minute)
				if synctest.Wait(); len(k.removed) > 0 {
					t.Errorf("%d removed", k.removed)
				}
				f.Changed(nil, both(b), nil)
				k.sleep(time.Minute)
				if synctest.Wait(); len(k.removed) != 2 || k.resets != 1 {
					t.Errorf("%d removed and %d reset when the change is in", k.removed, k.resets)
				}
			})
		})
	}
	// While it was refused, its rules had an endpoint that neither plan has.
	t.Run("taken at last", func(t *testing.T) {
		for _, then := range []string{"changed", "as it was"} {
			k := &fake{flows: []flow{fakeFlow(5, objects.UDP, "10.96.0.1:53", c)}}
			running(t, k, 0, func(f *Flows) {
				f.Changed(nil, both(a), nil)
				k.said()
				k.flows = []flow{fakeFlow(5, objects.UDP, "10.96.0.1:53", c)}
				f.Changed(both(a), both(b), refused)
				f.Changed(planOf(tcp("10.96.0.2:53", b)), planOf(tcp("10.96.0.2:53", b, c)), refused)
				if got := k.said(); got != "" || len(k.removed) > 1 {
					t.Errorf("%s: asked %s, removed %d while it is refused", then, got, k.removed)
				}
				k.removed = nil
				if then == "changed" {
					f.Changed(both(b), both(a, b), nil)
				} else {
					f.Changed(planOf(tcp("10.96.0.2:53", b, c)), planOf(tcp("10.96.0.2:53", a, b, c)), nil)
				}
				if got := k.said(); got != "udp to 10.96.0.1:53" || !slices.Equal(k.removed, []uint16{5}) {
					t.Errorf("%s: asked %s, removed %d", then, got, k.removed)
				}
			})
		}
	})
	t.Run("from the start", func(t *testing.T) {
		k := &fake{flows: slices.Clone(all)}
		running(t, k, Grace, func(f *Flows) {
			p := both(a)
			p.Services[objects.Name{Namespace: "ns", Name: "other"}] = plan.Service{Frontends: []plan.Frontend{tcp("10.96.0.3:53", a)}}
			k.flows = append(k.flows, fakeFlow(4, objects.TCP, "10.96.0.3:53", a))
			f.Changed(nil, p, refused)
			f.Changed(planOf(tcp("10.96.0.3:53", a)), planOf(), refused)
			k.sleep(time.Minute)
			if synctest.Wait(); len(k.removed) > 0 {
				t.Errorf("%d removed", k.removed)
			}
		})
	})
	t.Run("during a walk", func(t *testing.T) {
		k := &fake{flows: slices.Clone(all[:1])}
		running(t, k, 0, func(f *Flows) {
			f.Changed(nil, both(a, b), nil)
			synctest.Wait()
			k.walk = func() {
				k.walk = nil
				f.Changed(both(b), both(b, c), refused)
			}
			f.Changed(both(a, b), both(b), nil)
			if synctest.Wait(); len(k.removed) > 0 {
				t.Errorf("%d removed while it is not known", k.removed)
			}
			f.Changed(both(b), both(b, c), nil)
			if synctest.Wait(); !slices.Equal(k.removed, []uint16{1}) {
				t.Errorf("removed %d, want the first", k.removed)
			}
		})
	})
	t.Run("in doubt before", func(t *testing.T) {
		k := &fake{flows: slices.Clone(all[:1])}
		running(t, k, 0, func(f *Flows) {
			f.Changed(nil, both(a, b), nil)
			synctest.Wait()
			k.turns.Lock() // the second comes before Run has done anything about the first
			f.Changed(both(a, b), both(b), nil)
			f.Changed(both(b), both(b, c), refused)
			k.turns.Unlock()
			k.sleep(time.Minute)
			if synctest.Wait(); len(k.removed) > 0 {
				t.Errorf("%d removed while it is not known", k.removed)
			}
			k.said()
			f.Changed(planOf(tcp("10.96.0.2:53", b)), planOf(tcp("10.96.0.2:53", b, c)), refused)
			if got := k.said(); got != "" {
				t.Errorf("asked %s while it is not known", got)
			}
			k.walk = func() {
				k.walk = nil
				f.Changed(both(b), both(b, c), nil)
			}
			f.Changed(planOf(), planOf(udp("10.96.0.3:53", b)), refused)
			if synctest.Wait(); !slices.Equal(k.removed, []uint16{1}) {
				t.Errorf("removed %d, want the first", k.removed)
			}
		})
	})
}
