package disruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/verdict"
)

// quiet is how long no node must have led to a pod that is gone, until all have heard of it: of two
// endpoints every other connection shows one, so that in tens of polls none does is no chance; and a
// try that waits is known after a second only.
const quiet = 3 * time.Second

// apiOutage: a node is kept from the API, and a pod on the other node dies. Under policy Cluster the
// first node goes on sending it its share until it hears of that.
//
//	client -> HAProxy -> worker  (cut off) nodePort, eTP=Cluster -> its own pod | the pod that dies
//	                  -> worker2           nodePort, eTP=Cluster -> worker's pod
//
// One rollout: clients of the API that were cut off wait longer after each outage (client-go).
func apiOutage() scenario.Entry {
	d := usual()
	d.Rollouts, d.Delay, d.Hold = 1, 2*time.Second, 10*time.Second
	return scenario.Entry{
		Name: "api-outage", Title: "a pod dies while the other node cannot reach the API, under externalTrafficPolicy=Cluster",
		Says:   "A node that cannot reach the API serves on by what it knew, loses only what it sends to the pod that is gone, and follows when it can; the other node loses nothing.",
		Source: []string{"Kubernetes, Communication between Nodes and the Control Plane", "client-go, reflector backoff"},
		Rows:   row.Default(), Profile: usualProfile, Defaults: d,
		Check: func(p scenario.Params) error {
			if p.Hold < time.Second {
				return fmt.Errorf("hold %s: must be a second at least, for the node that is cut off to send to the pod that is gone", p.Hold)
			}
			return nil
		},
		Build: func(p scenario.Params) scenario.Scenario {
			cut := func(n scenario.Now) disrupt.Act { return disrupt.CutAPI{Nodes: []string{n.Node(0)}} }
			kill := func(n scenario.Now) disrupt.Act { return disrupt.Delete{Namespace: n.App.Namespace, Pod: n.Pod(1)} }
			admit := func(n scenario.Now) disrupt.Act { return disrupt.Admit{App: n.App, Limit: n.Limit} }
			return scenario.Scenario{
				Replicas: 2, Policy: corev1.ServiceExternalTrafficPolicyCluster, Needs: []disrupt.Need{disrupt.NeedNodes},
				Promises: []report.Promise{{Of: report.OfOwn, But: []verdict.Cause{verdict.CauseStale, verdict.CauseRemembered}}},
				Steps: []scenario.Step{
					{When: scenario.Settled(), Wait: preRoll, Name: record.ActCut, Do: cut},
					{Wait: time.Second, Name: "delete-pod", Do: kill},
					{When: scenario.Ended()},
					{Do: admit},
					{Wait: p.Hold, Name: record.ActHealed, Undo: true},
					{When: scenario.Heard(quiet), Name: record.ActSettled},
					{Wait: postRoll},
				},
			}
		},
	}
}
