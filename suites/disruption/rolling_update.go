package disruption

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
)

// One replica moves from worker to worker with every restart. The load balancer learns of it only
// by its health checks; until then the old node must go on serving with its terminating pod.
//
//	client -> HAProxy -> worker  nodePort, eTP=Local -> pod (old, terminating)
//	                  -> worker2 nodePort, eTP=Local -> pod (new)
func rollingUpdate() scenario.Entry {
	return scenario.Entry{
		Name: "rolling-update", Title: "rolling update under externalTrafficPolicy=Local",
		Says:   "With the fallback to terminating endpoints a rolling update loses no connection, if the old pod serves longer than the balancer needs to leave its node.",
		Source: []string{"KEP-1669", "KEP-1672"},
		Rows:   row.Default(), Profile: usualProfile, Defaults: usual(),
		Build: func(scenario.Params) scenario.Scenario {
			return scenario.Scenario{
				Replicas: 1, Policy: corev1.ServiceExternalTrafficPolicyLocal, Steps: moving(), Phased: true, Model: report.SingleReplica,
				Promises: []report.Promise{{Of: report.OfFallback}, {Of: report.OfIgnore, Band: true}},
			}
		},
	}
}

// moving restarts the workload, and lets the new pod in.
func moving() []scenario.Step {
	return []scenario.Step{
		{When: scenario.Settled(), Wait: preRoll, Name: "restart", Do: func(n scenario.Now) disrupt.Act { return disrupt.Restart{App: n.App} }},
		{Do: func(n scenario.Now) disrupt.Act { return disrupt.Admit{App: n.App, Limit: n.Limit} }},
		{When: scenario.Moved(), Name: record.ActSettled},
		{Wait: postRoll},
	}
}
