package run

import (
	"time"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/verdict/model"
)

// Latencies that the a-priori model takes for granted on a kind cluster; the
// verdict shows the measured ones beside it (Rollout.Observed).
const (
	propagation = 60 * time.Millisecond // deletion or readiness -> slice -> rules and healthCheckNodePort
	controller  = 40 * time.Millisecond // new pod ready -> old pod deleted by the Deployment's controllers
	kubelet     = 50 * time.Millisecond // deletion -> SIGTERM
	slack       = 100 * time.Millisecond
	// kube-proxy syncs at most once a second (minSyncPeriod, default 1s): the new
	// pod's readiness takes one sync, the old pod's deletion waits for the next.
	kubeProxyMinSync = time.Second
)

// predict is the model's loss for the rollouts of a row that count; nil: it has none.
func predict(lb report.LB, sc report.Scenario, row report.Row) *model.Prediction {
	if sc.Model != report.SingleReplica {
		return nil
	}
	p, err := model.SingleReplica(inputs(lb, sc.Settings, row), len(row.Rollouts))
	if err != nil {
		return nil
	}
	return &p
}

func inputs(lb report.LB, set report.Settings, row report.Row) model.Inputs {
	span := func(d report.Duration) time.Duration { return time.Duration(d) }
	in := model.Inputs{
		Rate: set.Rate, Semantics: model.Semantics(row.Mode), Propagation: propagation, Controller: controller, Kubelet: kubelet,
		LB: model.LB{
			Interval: span(lb.Interval), Fast: span(lb.Fast), Down: span(lb.Down), Fall: lb.Fall, Rise: lb.Rise, Check: time.Millisecond,
		},
		PreStop: span(set.PreStop), Delay: span(set.Delay), Grace: span(set.Grace), MinReady: span(set.MinReady), Slack: slack,
	}
	if !row.Own {
		in.Propagation += kubeProxyMinSync
	}
	if set.Unready {
		in.UnreadyAfter = time.Second // readinessProbe.periodSeconds of the workload
	}
	return in
}
