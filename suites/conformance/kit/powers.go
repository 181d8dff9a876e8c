package kit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/plumbline/plumbline/fixtures/probeagent"
)

// KillAgent ends a node's agent with SIGKILL; something starts it again at once.
func (s *Spec) KillAgent(n *Node) {
	s.must(s.env.stage.(Agents).KillAgent(s.ctx, n.Name), "kill the agent of %s", n.Name)
	s.changed()
}

// WithoutAgents runs f while no agent runs anywhere; their rules stay.
func (s *Spec) WithoutAgents(f func()) {
	agents := s.env.stage.(Agents)
	start := func() error { return agents.StartAgents(context.WithoutCancel(s.ctx)) }
	started := s.onEndOnce(start)
	s.must(agents.StopAgents(s.ctx), "stop the agents")
	s.changed()
	f()
	s.must(started(), "start the agents")
	s.changed()
}

// outage is the table that keeps nodes from the API.
const outage = "plumbline-outage"

// apiPort is where agents reach the API, at the control plane's own address.
const apiPort = 6443

// WithoutAPI runs f while no node reaches the API: connections to it are broken, and
// new ones refused, as when its server has ended. The harness itself still reaches it.
// Clients of the API wait longer after each outage, up to 30 s, and forget it after two
// minutes (client-go): so a behaviour has one outage, and leaves new agents.
func (s *Spec) WithoutAPI(f func()) {
	s.renewAgentsAtEnd()
	cut := fmt.Sprintf("table inet %s {"+
		" chain out { type filter hook output priority filter; tcp dport %d reject with tcp reset; };"+
		" chain in { type filter hook input priority filter; tcp sport %d drop; }; }", outage, apiPort, apiPort)
	heal := func() error {
		var all error
		for _, n := range s.Nodes {
			_, err := s.env.stage.Cluster().Exec(context.WithoutCancel(s.ctx), n.Name, "nft", "destroy", "table", "inet", outage)
			if err != nil { // nft before 1.0.7 has no destroy
				_, err = s.env.stage.Cluster().Exec(context.WithoutCancel(s.ctx), n.Name, "nft", "delete", "table", "inet", outage)
			}
			all = errors.Join(all, err)
		}
		return all
	}
	healed := s.onEndOnce(heal)
	for _, n := range s.Nodes {
		s.Exec(n, "nft", cut)
		s.Exec(n, "ss", "--kill", "--tcp", "state", "established", "dport", "=", fmt.Sprintf(":%d", apiPort))
	}
	s.changed()
	f()
	s.must(healed(), "let nodes reach the API again")
	s.changed()
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
	return out
}

// renewAgentsAtEnd starts the agents anew when the behaviour ends, so that the next
// meets none that remember what was done to them.
func (s *Spec) renewAgentsAtEnd() {
	s.onEnd(func() error {
		agents, ctx := s.env.stage.(Agents), context.WithoutCancel(s.ctx)
		return errors.Join(agents.StopAgents(ctx), agents.StartAgents(ctx))
	})
}

// Flush removes the dataplane's rules of the Spec's family from a node, as a careless
// hand does. It says whether it knows how.
func (s *Spec) Flush(n *Node) bool {
	if len(s.env.cfg.Flush) == 0 {
		return false
	}
	s.renewAgentsAtEnd()
	for _, argv := range s.env.cfg.Flush {
		s.Exec(n, inFamily(argv, s.Family)...)
	}
	s.changed()
	return true
}

// inFamily is a command about rules of IPv4, about those of a family.
func inFamily(argv []string, f corev1.IPFamily) []string {
	argv = slices.Clone(argv)
	if f == corev1.IPv6Protocol {
		for i, word := range argv {
			switch word {
			case "ip":
				argv[i] = "ip6"
			case "iptables":
				argv[i] = "ip6tables"
			}
		}
	}
	return argv
}

// Taint puts a taint on a node until the behaviour ends.
func (s *Spec) Taint(n *Node, t corev1.Taint) {
	put := func(ctx context.Context, on bool) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			node, err := s.env.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			var rest []corev1.Taint
			for _, o := range node.Spec.Taints {
				if o.Key != t.Key {
					rest = append(rest, o)
				}
			}
			if on {
				rest = append(rest, t)
			}
			node.Spec.Taints = rest
			_, err = s.env.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
			return err
		})
	}
	s.onEnd(func() error { return put(context.WithoutCancel(s.ctx), false) })
	s.must(put(s.ctx, true), "taint node %s", n.Name)
	s.changed()
}

// Cordon makes a node unschedulable until the behaviour ends.
func (s *Spec) Cordon(n *Node) {
	put := func(ctx context.Context, on bool) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			node, err := s.env.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			node.Spec.Unschedulable = on
			_, err = s.env.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
			return err
		})
	}
	s.onEnd(func() error { return put(context.WithoutCancel(s.ctx), false) })
	s.must(put(s.ctx, true), "cordon node %s", n.Name)
	s.changed()
}

// ExpectHTTP asks a path and demands that the answer is right: wrong says in what
// it is not. Like Expect it is asked again only while the dataplane may be late, and
// what was right late must stay so. It returns the last answer.
func (s *Spec) ExpectHTTP(c Client, at netip.AddrPort, path string, wrong func(*probeagent.Response) string) *probeagent.Response {
	r, late := s.awaitHTTP(s.limit(), c, at, path, wrong)
	for n := 0; late > 0 && n < confirmations; n++ {
		again, why := s.askHTTP(c, at, path, wrong)
		if why != "" {
			s.failHTTP(c, at, path, again, wavered(late, why))
		}
		r = again
	}
	return r
}

// awaitHTTP asks until the answer is right, for so long after the last change. It says
// how long that took, 0: it was right at the first try.
func (s *Spec) awaitHTTP(d time.Duration, c Client, at netip.AddrPort, path string, wrong func(*probeagent.Response) string) (r *probeagent.Response, late time.Duration) {
	for first := true; ; first = false {
		took := time.Since(s.at)
		r, why := s.askHTTP(c, at, path, wrong)
		if why == "" {
			if s.delay = max(s.delay, took); first {
				took = 0
			}
			return r, took
		}
		if time.Since(s.at) > d {
			s.failHTTP(c, at, path, r, why)
		}
		s.Pause(20 * time.Millisecond)
	}
}

func wavered(late time.Duration, why string) string {
	return fmt.Sprintf("right after %s, then not: %s", late.Round(time.Millisecond), why)
}

// StillHTTP demands the right answer at once: nothing has changed that might make it
// late.
func (s *Spec) StillHTTP(c Client, at netip.AddrPort, path string, wrong func(*probeagent.Response) string) {
	if r, why := s.askHTTP(c, at, path, wrong); why != "" {
		s.failHTTP(c, at, path, r, why)
	}
}

func (s *Spec) askHTTP(c Client, at netip.AddrPort, path string, wrong func(*probeagent.Response) string) (*probeagent.Response, string) {
	r, err := c.probe.Get(s.ctx, probeagent.Get{Target: at, Path: path})
	s.must(err, "ask http://%s%s", at, path)
	s.attempts++
	s.tried(trial{client: c, to: TCP(at), path: path, n: 1})
	if r.Class == probeagent.LocalErr {
		s.Inconclusive("%s asks http://%s%s: the client itself failed: %s", c.Name, at, path, r.Err)
	}
	return r, wrong(r)
}

func (s *Spec) failHTTP(c Client, at netip.AddrPort, path string, r *probeagent.Response, why string) {
	s.keep("answer.txt", fmt.Sprintf("http://%s%s\n%s %d\n%v\n\n%s\n", at, path, r.Class, r.Status, r.Header, r.Body))
	s.Fail("%s asks http://%s%s: %s", c.Name, at, path, why)
}

// Status wants an HTTP status.
func Status(code int) func(*probeagent.Response) string {
	return func(r *probeagent.Response) string {
		if r.Class != probeagent.OK || r.Status != code {
			return fmt.Sprintf("want status %d, got %s, status %d: %s", code, r.Class, r.Status, r.Body)
		}
		return ""
	}
}

// Pause lets a stretch of time pass that the behaviour is about.
func (s *Spec) Pause(d time.Duration) {
	if err := pause(s.ctx, d); err != nil {
		s.Inconclusive("interrupted: %v", err)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
