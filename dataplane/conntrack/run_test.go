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
				f.Changed(nil, tc.plans[0])
				for i, p := range tc.plans[1:] {
					time.Sleep(time.Second)
					f.Changed(tc.plans[i], p)
				}
				begin := time.Now().Add(-time.Duration(len(tc.plans)-1) * time.Second)
				if tc.reset > 0 {
					time.Sleep(time.Until(begin.Add(tc.reset - time.Millisecond)))
					if synctest.Wait(); k.resets != 0 {
						t.Error("reset before the grace time was over")
					}
					time.Sleep(time.Millisecond)
				} else {
					time.Sleep(time.Hour)
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
		f.Changed(nil, planOf(udp("10.96.0.1:53", a, b, c), udp("10.96.0.2:53", a, b, c)))
		if got := k.said(); got != "udp" {
			t.Fatalf("asked %s at the start", got)
		}
		walking := make(chan struct{})
		k.walk = func() { <-walking }
		f.Changed(planOf(udp("10.96.0.1:53", a, b, c)), planOf(udp("10.96.0.1:53", b, c)))
		synctest.Wait()
		f.Changed(planOf(udp("10.96.0.1:53", b, c)), planOf(udp("10.96.0.1:53", c)))
		f.Changed(planOf(udp("10.96.0.1:53", c)), planOf(udp("10.96.0.1:53", a, c)))
		// Between these two a flow of the second Service had an endpoint that it has
		// neither before nor after.
		f.Changed(planOf(udp("10.96.0.2:53", a, b, c)), planOf(udp("10.96.0.2:53", "10.0.0.4:53")))
		k.flows = append(k.flows, fakeFlow(6, objects.UDP, "10.96.0.2:53", "10.0.0.4:53"))
		f.Changed(planOf(udp("10.96.0.2:53", "10.0.0.4:53")), planOf())
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

// What a walk finds may be of rules that nobody has told of yet: nothing is deleted before
// their change is known.
func TestWaitsForRulesUnderWay(t *testing.T) {
	const a, b = "10.0.0.1:53", "10.0.0.2:53"
	k := &fake{}
	running(t, k, 0, func(f *Flows) {
		f.Changed(nil, planOf(udp("10.96.0.1:53", a, b)))
		synctest.Wait()
		k.flows = []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a)}
		k.walk = func() {
			k.walk = nil
			f.Changing()
		}
		f.Changed(planOf(udp("10.96.0.1:53", a, b)), planOf(udp("10.96.0.1:53", b)))
		time.Sleep(time.Minute)
		if synctest.Wait(); len(k.removed) > 0 {
			t.Fatal("deleted while the rules change")
		}
		f.Changed(planOf(udp("10.96.0.1:53", b)), planOf(udp("10.96.0.1:53", a, b)))
		if synctest.Wait(); len(k.removed) > 0 {
			t.Error("deleted though the endpoint is back")
		}
		f.Changed(planOf(udp("10.96.0.1:53", a, b)), planOf(udp("10.96.0.1:53", b)))
		if synctest.Wait(); !slices.Equal(k.removed, []uint16{1}) {
			t.Errorf("removed %d, want 1", k.removed)
		}
	})
}

// A walk that fails is tried again, less and less often, and what it was to find is found.
func TestRetry(t *testing.T) {
	const a, b = "10.0.0.1:53", "10.0.0.2:53"
	k := &fake{flows: []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a)}}
	running(t, k, 0, func(f *Flows) {
		f.Changed(nil, planOf(udp("10.96.0.1:53", a)))
		synctest.Wait()
		k.asked, k.errs = nil, slices.Repeat([]error{unix.ENOBUFS}, 12)
		f.Changed(planOf(udp("10.96.0.1:53", a)), planOf())
		var at []time.Duration
		begin := time.Now()
		for n := 0; time.Since(begin) < time.Hour; time.Sleep(time.Millisecond) {
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
		f.Changed(nil, planOf(udp("10.96.0.1:53", a, b)))
		k.said()
		walk := func(meanwhile func()) string {
			walking := make(chan struct{})
			k.walk = func() { <-walking }
			f.Changed(planOf(udp("10.96.0.1:53", a, b)), planOf(udp("10.96.0.1:53", b)))
			synctest.Wait()
			meanwhile()
			close(walking)
			said := k.said()
			f.Changed(planOf(udp("10.96.0.1:53", b)), planOf(udp("10.96.0.1:53", a, b)))
			synctest.Wait()
			k.walk = nil
			return said
		}
		got := walk(func() {
			f.Changed(planOf(), planOf(udp("10.96.0.3:53", a)))
			f.Changed(planOf(udp("10.96.0.3:53", a)), planOf(udp("10.96.0.3:53", b)))
		})
		if want := "udp by 10.0.0.1:53, udp by 10.0.0.1:53, udp to 10.96.0.3:53"; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		k.flows = []flow{fakeFlow(1, objects.UDP, "10.96.0.1:53", a)}
		got = walk(func() { f.Changed(nil, planOf(udp("10.96.0.1:53", b), udp("10.96.0.3:53", b))) })
		if want := "udp by 10.0.0.1:53, udp"; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
}
