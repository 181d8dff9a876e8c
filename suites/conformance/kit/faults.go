package kit

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/kubewait"
)

// disrupt does an act, which is undone when the behaviour ends, or before by what it
// returns. The words say what was done; by is how it is done by hand.
func (s *Spec) disrupt(act disrupt.Act, by func(*byHand) string, words string) (undo func()) {
	if s.planned != nil {
		return s.changed
	}
	began, goesOn := time.Now(), false
	a := s.together.share(words, func() (disrupt.Undo, error) { return act.Do(s.ctx, s.env.world()) })
	once := s.onEndOnce(func() error { return s.together.letGo(context.WithoutCancel(s.ctx), a, goesOn) })
	s.must(a.err, "disturb the cluster")
	s.acted = a.at
	s.waited(a.at.Sub(began))
	s.did(by, "%s", words)
	s.changed()
	return func() {
		began, goesOn = time.Now(), true
		s.must(once(), "undo what was done to the cluster")
		s.did(nil, "undid it: %s", words)
		s.waited(a.undoAt.Sub(began))
		s.changed()
	}
}

// world is what acts are done to.
func (e *Env) world() disrupt.World {
	w := disrupt.World{Cluster: e.stage.Cluster(), Client: e.client}
	w.Agents, _ = e.stage.(disrupt.Agents)
	if e.nodes[0].NetNS == "" {
		w.NoNodes = "their network namespaces are out of reach"
	}
	return w
}

// waited counts how long it was kept waiting by its run in the other family, and leaves the rest for a run by itself if
// that is too long.
func (s *Spec) waited(d time.Duration) {
	if s.kept += max(0, d); s.kept > waitForOther {
		panic(outcome{result: ResultInconclusive, reason: fmt.Sprintf("it waited %s for its run with the other IP family", s.kept.Round(time.Second)), apart: true})
	}
}

// KillAgent ends a node's agent with SIGKILL, and tells when; something starts it again at once.
func (s *Spec) KillAgent(n *Node) (at time.Time) {
	s.disrupt(disrupt.KillAgent{Node: n.Name}, nil, "killed the dataplane's agent on "+n.Name+", which is started again")
	return s.acted
}

// WithoutAgents runs f while no agent runs anywhere; their rules stay.
func (s *Spec) WithoutAgents(f func()) {
	start := s.disrupt(disrupt.StopAgents{}, nil, "stopped the dataplane's agents on all nodes; their rules stay")
	f()
	start()
}

// WithoutAPI runs f while no node reaches the API (disrupt.CutAPI). Its clients remember
// an outage for a while: so a behaviour has one, and leaves new agents.
func (s *Spec) WithoutAPI(f func()) {
	s.renewAgentsAtEnd()
	var cut disrupt.CutAPI
	for _, n := range s.Nodes {
		cut.Nodes = append(cut.Nodes, n.Name)
	}
	heal := s.disrupt(cut, nil, "cut "+strings.Join(cut.Nodes, ", ")+" off from the API")
	f()
	heal()
}

// renewAgentsAtEnd starts the agents anew when the behaviour ends, in all families that share what is done to them,
// so that the next meets none that remember it.
func (s *Spec) renewAgentsAtEnd() {
	if s.planned != nil {
		return
	}
	s.together.whenAllEnded(func() error {
		_, err := disrupt.RenewAgents{}.Do(context.WithoutCancel(s.ctx), s.env.world())
		return err
	})
}

// Flush removes the dataplane's rules of the Spec's family from a node, as a careless
// hand does. It says whether it knows how.
func (s *Spec) Flush(n *Node) bool {
	if len(s.env.cfg.Flush) == 0 {
		return false
	}
	s.renewAgentsAtEnd()
	s.disrupt(disrupt.Flush{Node: n.Name, Commands: s.env.cfg.Flush, Family: s.Family}, nil, fmt.Sprintf("removed the dataplane's rules on %s: %q", n.Name, s.env.cfg.Flush))
	return true
}

// Taint puts a taint on a node until the behaviour ends.
func (s *Spec) Taint(n *Node, t corev1.Taint) {
	s.disrupt(disrupt.Taint{Node: n.Name, Taint: t}, handNode(n, "taint node", "--overwrite", t.ToString()), "tainted node "+n.Name+": "+t.ToString())
}

// Cordon makes a node unschedulable until the behaviour ends.
func (s *Spec) Cordon(n *Node) {
	s.disrupt(disrupt.Cordon{Node: n.Name}, handNode(n, "cordon"), "cordoned node "+n.Name)
}

// ExpectFollowing demands that the agents of all nodes follow changes: each leads to a
// new Service.
func (s *Spec) ExpectFollowing() {
	svc, pod := s.Service(), s.Nodes[0].A
	svc.Endpoints(pod.Ready())
	for _, n := range s.Nodes {
		s.Expect(n.B.Client, TCP(svc.ClusterIP()), Pods(pod))
	}
}

// Exec runs a command in a node's network and returns what it printed.
func (s *Spec) Exec(n *Node, argv ...string) string {
	out, err := s.env.stage.Cluster().Exec(s.ctx, n.Name, argv...)
	s.must(err, "run %s on %s", argv[0], n.Name)
	s.did(nil, "ran on node %s: %s", n.Name, strings.Join(argv, " "))
	return out
}

// aWait is a pause that is told: shorter ones are between questions.
const aWait = 100 * time.Millisecond

// Pause lets a stretch of time pass that the behaviour is about.
func (s *Spec) Pause(d time.Duration) {
	if err := kubewait.Pause(s.ctx, d); err != nil {
		s.Inconclusive("interrupted: %v", err)
	}
	if d >= aWait {
		s.did(handSleep(d), "waited %s", d.Round(time.Millisecond))
	}
}
