package run

import (
	"cmp"
	"time"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/verdict/model"
)

// UsualLatencies are those of a cluster of which no others are known: measured on kind.
func UsualLatencies() report.Latencies {
	ms := func(n int) report.Duration { return report.Duration(time.Duration(n) * time.Millisecond) }
	return report.Latencies{Propagation: ms(60), Controller: ms(40), Kubelet: ms(50)}
}

const (
	slack = 100 * time.Millisecond
	// kube-proxy syncs at most once a second (minSyncPeriod, default 1s): the new
	// pod's readiness takes one sync, the old pod's deletion waits for the next.
	kubeProxyMinSync = time.Second
)

// predict is the model's loss for the rollouts of a row that count; nil: it has none.
func predict(lb report.LB, sc report.Scenario, row report.Row) *model.Prediction {
	if sc.Model != report.SingleReplica {
		return nil
	}
	p, err := model.SingleReplica(inputs(lb, sc, row), len(row.Rollouts))
	if err != nil {
		return nil
	}
	return &p
}

func inputs(lb report.LB, sc report.Scenario, row report.Row) model.Inputs {
	set := sc.Settings
	span := func(d report.Duration) time.Duration { return time.Duration(d) }
	of := cmp.Or(sc.Latencies, UsualLatencies()) // reports of before do not say
	in := model.Inputs{
		Rate: set.Rate, Semantics: model.Semantics(row.Mode),
		Propagation: span(of.Propagation), Controller: span(of.Controller), Kubelet: span(of.Kubelet),
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
