package scenario

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

const second = int64(time.Second)

// states are those of a workload of one pod that moves from n1 to n2: deleted at 5 s, gone at 8 s,
// and left by the balancer at 9 s.
func states() []record.Event {
	pod := func(at int64, name, node, state string) record.Event {
		return record.Event{At: at * second, Kind: record.KindPod, Pod: name, Node: node, State: state}
	}
	endpoint := func(at int64, name, node, state string) record.Event {
		return record.Event{At: at * second, Kind: record.KindEndpoint, Pod: name, Node: node, State: state}
	}
	server := func(at int64, node, state string) record.Event {
		return record.Event{At: at * second, Kind: record.KindServer, Node: node, State: state}
	}
	return []record.Event{
		pod(1, "old", "n1", "ready"), endpoint(1, "old", "n1", "ready,serving"), server(1, "n1", "UP"), server(1, "n2", "DOWN"),
		{At: second, Kind: record.KindNodePort, Node: "n1", State: "ok"}, {At: second, Kind: record.KindNodePort, Node: "n2", State: "TIMEOUT"},
		pod(3, "new", "n2", "added"), pod(4, "new", "n2", "ready"), endpoint(4, "new", "n2", "ready,serving"),
		{At: 4 * second, Kind: record.KindNodePort, Node: "n2", State: "ok"},
		pod(5, "old", "n1", "deleting"), endpoint(5, "old", "n1", "serving,terminating"), server(6, "n2", "UP"),
		pod(8, "old", "n1", "gone"), endpoint(8, "old", "n1", "gone"), server(9, "n1", "DOWN"),
	}
}

func now(at int64, events ...record.Event) Now {
	return Now{Timeline: timeline.New(events), At: at * second, Since: 2 * second, Replicas: 1, Policy: corev1.ServiceExternalTrafficPolicyLocal,
		Workers: []string{"n1", "n2"}, Balanced: true}
}

func TestConditionsOfAMove(t *testing.T) {
	for at := int64(1); at <= 10; at++ {
		for _, c := range []struct {
			Condition
			want bool
		}{
			{Settled(), at < 3 || at >= 9},
			{Replaced(), at >= 9},
			{Moved(), at >= 9},
			{Ended(), at >= 8},
		} {
			if got := c.Holds(now(at, states()...)); got != c.want {
				// At its start n2 is known not to forward.
				t.Errorf("at %d s: %s: %v", at, c.Says, got)
			}
		}
	}
	same := states()
	for i := range same {
		if same[i].Pod == "new" {
			same[i].Node = "n1"
		}
	}
	same = append(same, record.Event{At: 10 * second, Kind: record.KindServer, Node: "n2", State: "DOWN"}, record.Event{At: 10 * second, Kind: record.KindServer, Node: "n1", State: "UP"})
	if n := now(11, same...); !Replaced().Holds(n) || Moved().Holds(n) {
		t.Error("a pod that was replaced on its node has moved")
	}
}

// Of a workload that has settled each thing alone keeps it from that.
func TestSettledWantsAll(t *testing.T) {
	for name, e := range map[string]record.Event{
		"another pod lives":          {Kind: record.KindPod, Pod: "more", Node: "n1", State: "added"},
		"the pod is not ready":       {Kind: record.KindPod, Pod: "new", Node: "n2", State: "unready"},
		"slices say other":           {Kind: record.KindEndpoint, Pod: "new", Node: "n2", State: "serving,terminating"},
		"its node is DOWN":           {Kind: record.KindServer, Node: "n2", State: "DOWN"},
		"another node is UP as well": {Kind: record.KindServer, Node: "n1", State: "UP"},
	} {
		e.At = 10 * second
		if Settled().Holds(now(11, append(states(), e)...)) {
			t.Errorf("settled though %s", name)
		}
	}
	n := now(11, states()...)
	if n.Replicas = 2; Settled().Holds(n) {
		t.Error("settled with one of two pods")
	}
	n = now(11, states()...)
	n.Policy = corev1.ServiceExternalTrafficPolicyCluster
	if Settled().Holds(n) {
		t.Error("settled under policy Cluster with a worker that is DOWN")
	}
	n = now(11, append(states(), record.Event{At: 10 * second, Kind: record.KindServer, Node: "n1", State: "UP"})...)
	if n.Policy = corev1.ServiceExternalTrafficPolicyCluster; !Settled().Holds(n) {
		t.Error("not settled under policy Cluster with all workers UP")
	}
	n = now(11, append(states(), record.Event{At: 10 * second, Kind: record.KindServer, Node: "n2", State: "DOWN"})...)
	if n.Balanced = false; !Settled().Holds(n) {
		t.Error("a load balancer of which nothing is known keeps it from settling")
	}
}

func TestHeardWantsEveryNodeToLead(t *testing.T) {
	// A try that was in vain is followed by one that was not.
	for _, k := range []record.Kind{record.KindNodePort, record.KindServed} {
		flap := append(states(), record.Event{At: second, Kind: k, Node: "n1", State: "ok"}, record.Event{At: 11 * second, Kind: k, Node: "n1", State: "ECONNREFUSED"},
			record.Event{At: 11*second + 1, Kind: k, Node: "n1", State: "ok"})
		for at, want := range map[int64]bool{10: k == record.KindServed, 12: false, 13: false, 15: true} {
			n := now(at, flap...)
			n.Workers = []string{"n1"}
			if k == record.KindNodePort && at == 10 {
				want = true
			}
			if got := Heard(2 * time.Second).Holds(n); got != want {
				t.Errorf("%s: at %d s a node that led nowhere at 11 s has heard: %v", k, at, got)
			}
		}
	}
	if c := Heard(3 * time.Second); c.For != 3*time.Second {
		t.Errorf("for %s", c.For)
	}
}

func TestRestarted(t *testing.T) {
	lb := func(at int64, state string) record.Event {
		return record.Event{At: at * second, Kind: record.KindLB, State: state}
	}
	before := append(states(), lb(1, record.LBExit), lb(1, record.LBStart))
	for name, c := range map[string]struct {
		more []record.Event
		want bool
	}{
		"an earlier end": {nil, false},
		"it ended":       {[]record.Event{lb(10, record.LBExit)}, false},
		"it is back":     {[]record.Event{lb(10, record.LBExit), lb(11, record.LBStart)}, true},
		"without nodes": {[]record.Event{lb(10, record.LBExit), lb(11, record.LBStart),
			{At: 11 * second, Kind: record.KindServer, Node: "n2", State: "DOWN"}}, false},
	} {
		if got := Restarted().Holds(now(12, append(before, c.more...)...)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
