package kit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/cell"
)

// planned stands for the probes where a behaviour is only asked what it would do: there is an
// API, which gives Services their addresses, and no node. Each attempt comes to what is wanted
// of it; one of which nothing is wanted comes to what was wanted last of the same.
type planned struct {
	lot     *rand.Rand          // which server answers
	servers map[string][]Client // that were wanted last, by client and target
	state   int                 // of the objects: how often they changed
	rounds  []Round
}

// Planned is what a behaviour would ask.
type Planned struct {
	Cells  map[cell.Cell]bool
	Rounds []Round // in their order
}

// Round is attempts of which something is wanted.
type Round struct {
	Way      string // the client, and what it dials
	Attempts int
	Answers  bool // are wanted; or that there are none
	Freed    bool // the node port that it dials is no Service's any more
	State    int  // of the objects: how often they had changed
}

// PlannedNamespace is where the objects of a planned behaviour are.
const PlannedNamespace = "planned"

// Plan says what a behaviour would ask in a family of a cluster of so many nodes, without one: of the
// API behind client alone, in which Nodes that it needs are made. An error says that it did not come
// to its end.
func Plan(ctx context.Context, client kubernetes.Interface, b Behaviour, f corev1.IPFamily, nodes int) (Planned, error) {
	e := &Env{client: client, namespace: PlannedNamespace, numbers: map[string]int{}, used: map[string]bool{}, outside: Client{Name: Outside, addrs: plannedAddrs(9, 1)}}
	e.cfg = Config{Families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, Flush: [][]string{{"planned"}}, Timeouts: DefaultTimeouts()}
	for i := range byte(nodes) {
		n := &Node{Name: fmt.Sprintf("node-%d", i+1), Zone: fmt.Sprintf("zone-%c", 'a'+i%3), NetNS: "planned"}
		n.Client = Client{Name: n.Name, addrs: plannedAddrs(0, i+1)}
		n.A = &Pod{Client{Name: "probe-a-" + n.Name, addrs: plannedAddrs(i+1, 1)}, n}
		n.B = &Pod{Client{Name: "probe-b-" + n.Name, addrs: plannedAddrs(i+1, 2)}, n}
		e.nodes = append(e.nodes, n)
		if err := e.planNode(ctx, n); err != nil {
			return Planned{}, err
		}
	}
	s := e.spec(ctx, b, f, alone())
	s.planned = &planned{lot: rand.New(rand.NewPCG(1, 1)), servers: map[string][]Client{}}
	out, ok := s.protected(b.Run)
	err := s.end()
	if !ok && out.result != ResultSkip {
		err = errors.Join(fmt.Errorf("plan %s: %s: %s", b.ID, out.result, out.reason), err)
	}
	return Planned{s.cells, s.planned.rounds}, err
}

// planNode makes a Node, for behaviours that change one.
func (e *Env) planNode(ctx context.Context, n *Node) error {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelTopologyZone: n.Zone}}}
	o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	made, err := e.client.CoreV1().Nodes().Create(ctx, o, metav1.CreateOptions{})
	if err == nil {
		made.Status.Conditions = o.Status.Conditions
		_, err = e.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("make Node %s of a plan: %w", n.Name, err)
	}
	return nil
}

// plannedAddrs are of no range that behaviours make addresses up from.
func plannedAddrs(net, host byte) map[corev1.IPFamily]netip.Addr {
	return families([]netip.Addr{netip.AddrFrom4([4]byte{10, 244, net, host}), netip.AddrFrom16([16]byte{0: 0xfd, 12: net, 15: host})})
}

// plan is a round that is not made.
func (s *Spec) plan(c Client, t Target, w Want) *remote.Results {
	s.planned.rounds = append(s.planned.rounds, Round{c.at() + " to " + t.String(), w.n, len(w.servers) > 0, s.freed(t), s.planned.state})
	return s.planned.want(c, t, w)
}

// freed tells whether a target is a node port that a Service of the behaviour had, and none has.
func (s *Spec) freed(t Target) bool {
	was := func(v *Service) bool { return v.met[t] == cell.NodePort }
	has := func(v *Service) bool { _, _, ok := v.front(t); return ok }
	return slices.ContainsFunc(s.services, was) && !slices.ContainsFunc(s.services, has)
}

// want is what attempts come to of which something is wanted.
func (p *planned) want(c Client, t Target, w Want) *remote.Results {
	p.servers[c.at()+" "+t.String()] = w.servers
	res := &remote.Results{}
	for range w.n {
		res.Attempts = append(res.Attempts, p.answer(w))
	}
	return res
}

// answer is one attempt's: of a server by lot, or of the first class that is wanted.
func (p *planned) answer(w Want) remote.Result {
	if len(w.servers) > 0 {
		return remote.Result{Class: remote.OK, Name: w.servers[p.lot.IntN(len(w.servers))].Name}
	}
	for _, class := range []remote.Class{remote.Refused, remote.Timeout} {
		if r := (remote.Result{Class: class}); w.class(r) {
			return r
		}
	}
	return remote.Result{Class: remote.OK}
}

// any is what attempts come to of which nothing is wanted yet.
func (p *planned) any(c Client, t Target, n int) *remote.Results {
	servers := p.servers[c.at()+" "+t.String()]
	return p.want(c, t, Want{n: n, servers: servers, class: func(r remote.Result) bool { return r.Class == remote.OK }})
}

// open is that of connections.
func (p *planned) open(c Client, t Target, n int) *remote.Conns {
	return &remote.Conns{First: p.any(c, t, n)}
}

// ask is that of connections that stand: they stay where they were.
func (p *planned) ask(conns *remote.Conns) *remote.Results {
	return &remote.Results{Attempts: slices.Clone(conns.First.Attempts)}
}

// planStreams is that of streams: they are not judged.
func (s *Spec) planStreams(loads []Way, f func()) (out []*stream) {
	for _, l := range loads {
		s.asks(l.From, l.To)
		out = append(out, &stream{way: way{from: l.From, at: l.To}, res: &remote.Results{}})
	}
	f()
	for _, l := range loads {
		s.asks(l.From, l.To)
	}
	return out
}
