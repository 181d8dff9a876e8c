package scenario

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// Condition is asked of the states as they are recorded, which are those that the verdict is given
// on: what a scenario waited for and what is judged cannot disagree.
type Condition struct {
	Says  string // what is waited for: "the workload has settled"
	Holds func(Now) bool
	For   time.Duration // so long without a break
}

// Settled: as many pods as wanted are ready and no other lives, slices say the same, and the load
// balancer sends to exactly the nodes that it should.
func Settled() Condition { return Condition{Says: "the workload has settled", Holds: settled} }

func settled(n Now) bool {
	live := n.Live(n.At)
	if len(live) != n.Replicas {
		return false
	}
	want := map[string]bool{}
	for _, p := range live {
		if p.State != timeline.Ready || !timeline.HasFlag(n.Timeline.At(record.KindEndpoint, p.Name, n.At), timeline.Ready) {
			return false
		}
		want[p.Node] = true
	}
	if n.Policy != corev1.ServiceExternalTrafficPolicyLocal {
		want = map[string]bool{}
		for _, w := range n.Workers {
			want[w] = true
		}
	}
	return !n.Balanced || slices.Equal(n.Up(n.At), slices.Sorted(maps.Keys(want)))
}

// Replaced: it has settled, and none of the pods is one that lived when the last act began.
func Replaced() Condition {
	return Condition{Says: "the workload has been replaced", Holds: func(n Now) bool {
		return settled(n) && !slices.ContainsFunc(n.Live(n.Since), func(was timeline.Pod) bool {
			return slices.ContainsFunc(n.Live(n.At), func(is timeline.Pod) bool { return is.Name == was.Name })
		})
	}}
}

// Moved: it has been replaced, on other nodes.
func Moved() Condition {
	replaced := Replaced()
	return Condition{Says: "the workload has moved to another node", Holds: func(n Now) bool {
		return replaced.Holds(n) && !slices.ContainsFunc(n.Live(n.Since), func(was timeline.Pod) bool {
			return slices.ContainsFunc(n.Live(n.At), func(is timeline.Pod) bool { return is.Node == was.Node })
		})
	}}
}

// Ended: a pod has been deleted since the last act began, and none that lives is being deleted.
func Ended() Condition {
	return Condition{Says: "the pod that was deleted is gone", Holds: func(n Now) bool {
		deleted := slices.ContainsFunc(n.Starts(timeline.PodDeleted()), func(e record.Event) bool { return e.At >= n.Since && e.At <= n.At })
		return deleted && !slices.ContainsFunc(n.Live(n.At), func(p timeline.Pod) bool { return p.State == timeline.Deleting })
	}}
}

// Heard: it has settled, and for a while every node has led to a pod that answers, each time it was
// asked: none sends to one that is gone.
func Heard(quiet time.Duration) Condition {
	return Condition{Says: "every node has heard of it", For: quiet, Holds: func(n Now) bool {
		return settled(n) && !slices.ContainsFunc(n.Workers, func(w string) bool {
			from := n.At - quiet.Nanoseconds()
			return !n.Steady(record.KindNodePort, w, from, n.At, timeline.Forwards) || !n.Steady(record.KindServed, w, from, n.At, timeline.Forwards)
		})
	}}
}

// Restarted: the load balancer has ended since the last act, has started again, and all has settled.
func Restarted() Condition {
	return Condition{Says: "the load balancer is back", Holds: func(n Now) bool {
		after := func(state string, from int64) (int64, bool) {
			for _, e := range n.Starts(timeline.Start{Kind: record.KindLB, State: state}) {
				if e.At >= from {
					return e.At, true
				}
			}
			return 0, false
		}
		ended, is := after(record.LBExit, n.Since)
		if !is {
			return false
		}
		_, back := after(record.LBStart, ended)
		return back && settled(n)
	}}
}
