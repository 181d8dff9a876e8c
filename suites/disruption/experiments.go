package disruption

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
)

// experiments are E1-E3: a rolling update as one client sees it, with one probe a second, 500 ms
// patience, an app that serves 30 s after SIGTERM, and HAProxy's defaults. They are anecdotes: no
// band judges what they lose.
func experiments() []scenario.Entry {
	var all []scenario.Entry
	for _, e := range []struct {
		name, title, says string
		row               row.Row
	}{
		{"e1", "terminating endpoints removed at once, no local endpoint dropped (kube-proxy before 1.26)",
			"The client waits in vain until the load balancer's checks have found the old node out.", row.Own("nftables", "ignore", "drop")},
		{"e2", "serving, terminating endpoints kept as fallback (KEP-1669)",
			"The client notices nothing.", row.Own("nftables", "fallback", "drop")},
		{"e3", "terminating endpoints removed at once, no local endpoint rejected (Cilium without the fallback)",
			"The client is refused until the load balancer's checks have found the old node out.", row.Own("nftables", "ignore", "reject")},
	} {
		all = append(all, scenario.Entry{
			Name: e.name, Title: e.title, Says: e.says, Source: []string{"KEP-1669"},
			Rows: []row.Row{e.row}, Profile: "seed",
			Defaults: scenario.Params{Rollouts: 1, Rate: 1, Timeout: 500 * time.Millisecond, Delay: 30 * time.Second},
			Build: func(scenario.Params) scenario.Scenario {
				return scenario.Scenario{
					Replicas: 1, Policy: corev1.ServiceExternalTrafficPolicyLocal, Steps: moving(), Phased: true, Model: report.SingleReplica,
					Promises: []report.Promise{{Of: report.OfFallback}}, Sequence: true,
				}
			},
		})
	}
	return all
}
