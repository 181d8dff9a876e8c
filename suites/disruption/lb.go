package disruption

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/timeline"
	"github.com/plumbline/plumbline/suites/verdict"
)

// reloads of one rollout, and how far they are apart.
const (
	reloads     = 5
	reloadEvery = 2 * time.Second
)

// lbReload: the load balancer takes a configuration anew under load. No pod dies, and no node has
// anything to do with it.
func lbReload() scenario.Entry {
	return scenario.Entry{
		Name: "lb-reload", Title: "the load balancer reloads, five times, while no pod dies",
		Says:   "A reload loses nothing: the new process takes over the sockets that listen, and what the old one knew of the nodes.",
		Source: []string{"HAProxy management guide, 4: hitless reloads; server-state-file"},
		Rows:   row.Default(), Profile: usualProfile, Defaults: usual(),
		Build: func(scenario.Params) scenario.Scenario {
			s := steady()
			s.Starts = timeline.Start{Kind: record.KindLB, State: record.LBReload}
			s.Promises = []report.Promise{{Of: report.OfEvery}}
			wait := preRoll
			for range reloads {
				s.Steps = append(s.Steps, scenario.Step{When: scenario.Settled(), Wait: wait, Name: "reload-lb", Do: func(n scenario.Now) disrupt.Act { return disrupt.ReloadLB{LB: n.Balancer} }})
				wait = reloadEvery
			}
			s.Steps = append(s.Steps, scenario.Step{When: scenario.Settled(), Wait: reloadEvery, Name: record.ActSettled})
			return s
		},
	}
}

// lbRestart and lbCrash: nobody answers until it is back, and then it has to find out anew which nodes
// serve. How long that takes is measured; what else is lost is somebody's fault.
func lbRestart() scenario.Entry {
	return scenario.Entry{
		Name: "lb-restart", Title: "the load balancer is restarted: it finishes what it has, and comes back",
		Says:   "Nothing is lost but what comes while no load balancer listens, or before it knows of a node that serves.",
		Source: []string{"HAProxy management guide, 4: SIGUSR1"},
		Rows:   row.Default(), Profile: usualProfile, Defaults: usual(),
		Build: func(scenario.Params) scenario.Scenario { return ending(true) },
	}
}

func lbCrash() scenario.Entry {
	return scenario.Entry{
		Name: "lb-crash", Title: "the load balancer is killed, and comes back",
		Says:   "Nothing is lost but what the load balancer had under way, and what comes before it is back and knows of a node that serves.",
		Source: []string{"signal(7): SIGKILL"},
		Rows:   row.Default(), Profile: usualProfile, Defaults: usual(),
		Build: func(scenario.Params) scenario.Scenario { return ending(false) },
	}
}

func ending(softly bool) scenario.Scenario {
	name := map[bool]string{true: "restart-lb", false: "kill-lb"}[softly]
	s := steady()
	s.Starts = timeline.Start{Kind: record.KindAct, State: name} // what is known of the process's end comes later
	s.Recovery = scenario.FirstChecks
	s.Promises = []report.Promise{{Of: report.OfEvery, But: []verdict.Cause{
		verdict.CauseNoServer, verdict.CauseLBRefused, verdict.CauseLBSilent, verdict.CauseLBReset,
	}}}
	s.Steps = []scenario.Step{
		{When: scenario.Settled(), Wait: preRoll, Name: name, Do: func(n scenario.Now) disrupt.Act { return disrupt.EndLB{LB: n.Balancer, Softly: softly} }},
		{When: scenario.Restarted(), Name: record.ActSettled},
		{Wait: postRoll},
	}
	return s
}

// steady is a workload of two pods on two nodes, to which nothing happens.
func steady() scenario.Scenario {
	return scenario.Scenario{Replicas: 2, Policy: corev1.ServiceExternalTrafficPolicyLocal, Needs: []disrupt.Need{disrupt.NeedBalancers}}
}
