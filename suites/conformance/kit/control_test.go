package kit

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/probe/sock"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// key is that of all probes of the tests.
var key = sync.OnceValue(func() *remote.Key {
	k, err := remote.NewKey()
	if err != nil {
		panic(err)
	}
	return k
})

// serving has a node's probe serve one protocol until stop is called.
func serving(t *testing.T, n *Node, network remote.Network) (stop func()) {
	t.Helper()
	place, err := sock.NewPlace(netns.At(n.NetNS).Do)
	if err != nil {
		t.Fatal(err)
	}
	cfg := remote.Config{Name: n.Name, Key: key(), Ranges: remote.Everywhere, Control: controlPort, TCP: []uint16{HostPort}, Open: place.Socket}
	if network == remote.UDP {
		cfg.Control, cfg.TCP, cfg.UDP = controlPort+1, nil, []uint16{HostPort}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- remote.Serve(ctx, cfg, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-served:
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if cancel(); stopped {
			return
		}
		stopped = true
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		stop()
		if err := place.Close(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// A failure stays one as long as what it is about works without a Service, in its own
// protocol, and leaves evidence; otherwise nobody can say whose it is, and both are told.
func TestConfirmed(t *testing.T) {
	at := netip.MustParseAddrPort
	attempts := []string{"attempts-captured.txt", "attempts.txt", "b-conntrack.txt", "b-nft.txt", "b-packets.txt", "b.pcap", "by-hand.sh", "notes.txt", "objects.yaml"}
	answer := append([]string{"answer.txt"}, slices.DeleteFunc(slices.Clone(attempts), func(f string) bool { return f == "attempts.txt" })...)
	slices.Sort(answer)
	none := remote.Network("")
	for name, c := range map[string]struct {
		lost   remote.Network // while the behaviour runs
		run    func(*Spec, Client)
		result conformance.Result
		reason []string
		files  []string
	}{
		"datagrams, of the dataplane": {none, func(s *Spec, b Client) {
			s.Expect(s.Outside(), UDP(at("192.0.2.2:9")), Only(b).Times(4))
		}, ResultFail, []string{"want answers of b"}, attempts},
		"datagrams, of the network": {remote.UDP, func(s *Spec, b Client) {
			s.Expect(s.Outside(), UDP(at("192.0.2.2:9")), Only(b).Times(4))
		}, ResultInconclusive, []string{"want answers of b", "outside does not reach b (192.0.2.2:38081/udp) without a Service either: "}, attempts},
		"connections, though datagrams are lost": {remote.UDP, func(s *Spec, b Client) {
			s.Expect(s.Outside(), TCP(at("192.0.2.2:9")), Only(b).Times(4))
		}, ResultFail, []string{"want answers of b"}, attempts},
		"HTTP, of the dataplane": {none, func(s *Spec, b Client) {
			s.StillHTTP(s.Outside(), at("192.0.2.2:9"), "/", Status(200))
		}, ResultFail, []string{"want status 200"}, answer},
		"HTTP, of the network": {remote.TCP, func(s *Spec, b Client) {
			s.StillHTTP(s.Outside(), at("192.0.2.2:9"), "/", Status(200))
		}, ResultInconclusive, []string{"want status 200", "outside does not reach b (192.0.2.2:38081/tcp)"}, answer},
		"flows, of the network": {remote.UDP, func(s *Spec, b Client) {
			s.Flows(s.Outside(), UDP(at("192.0.2.2:9")), 2).Reach(b)
		}, ResultInconclusive, []string{"want flows to reach b", "(192.0.2.2:38081/udp)"}, attempts},
		"connections that stay, of the network": {remote.TCP, func(s *Spec, b Client) {
			s.Open(s.Outside(), TCP(at("192.0.2.2:9")), remote.Batch{})
		}, ResultInconclusive, []string{"connections of outside", "(192.0.2.2:38081/tcp)"}, attempts},
		"a server that does not answer": {none, func(s *Spec, b Client) {
			pod := Client{Name: "pod", addrs: b.addrs}
			s.Expect(Client{Name: "c", probe: s.Outside().probe}, TCP(at("192.0.2.2:9")), Only(pod).Times(4))
		}, ResultInconclusive, []string{"want answers of pod", "c does not reach pod (192.0.2.2:8080/tcp)"}, attempts},
		"said outright": {none, func(s *Spec, b Client) {
			s.Fail("not even")
		}, ResultFail, []string{"not even"}, []string{"b-nft.txt", "by-hand.sh", "notes.txt", "objects.yaml"}},
		"datagrams that are lost after all was well": {remote.UDP, func(s *Spec, b Client) {
			s.Attempts(s.Outside(), UDP(at("192.0.2.2:9")), remote.Batch{})
		}, ResultInconclusive, []string{"(192.0.2.2:38081/udp)"}, nil},
		"nothing": {none, func(s *Spec, b Client) {
			s.Attempts(s.Outside(), UDP(at("192.0.2.2:38081")), remote.Batch{Attempts: 20})
		}, ResultPass, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, client, _ := capturing(t)
			e, b := s.env, s.env.nodes[1]
			b.Client = Client{Name: "b", probe: prober(t, "b", netns.At(b.NetNS).Do), addrs: families([]netip.Addr{netip.MustParseAddr("192.0.2.2")})}
			b.A, b.B = &Pod{}, &Pod{}
			e.nodes, e.outside = []*Node{b}, Client{Name: Outside, probe: client.probe}
			e.cfg.Limit, e.client, e.stage = 20*time.Millisecond, fake.NewClientset(), &backdrop{dir: t.TempDir()}
			stop := map[remote.Network]func(){remote.TCP: serving(t, b, remote.TCP), remote.UDP: serving(t, b, remote.UDP), none: func() {}}
			r := e.run(t.Context(), Behaviour{ID: "x", Run: func(s *Spec) {
				stop[c.lost]()
				c.run(s, b.Client)
			}}, corev1.IPv4Protocol)
			if r.Result != c.result || len(c.reason) == 0 && r.Reason != "" {
				t.Errorf("%s: %s", r.Result, r.Reason)
			}
			for _, want := range c.reason {
				if !strings.Contains(r.Reason, want) {
					t.Errorf("%q is not in %q", want, r.Reason)
				}
			}
			var files []string
			for _, f := range r.Evidence {
				files = append(files, filepath.Base(f))
			}
			if slices.Sort(files); !slices.Equal(files, c.files) {
				t.Errorf("files %v\nwant  %v", files, c.files)
			}
		})
	}
}

// A failure of flows is about these, whatever was attempted since they were asked.
func TestFlowsFail(t *testing.T) {
	s := &Spec{}
	f := &Flows{spec: s, client: Client{Name: "c"}, target: UDP(netip.MustParseAddrPort("192.0.2.2:53")), last: &remote.Results{Attempts: make([]remote.Result, 8)}}
	s.tried(trial{client: Client{Name: "d"}, to: TCP(netip.MustParseAddrPort("192.0.2.3:80")), n: 1})
	if out, ok := s.protected(func(*Spec) { f.fail([]Client{{Name: "server"}}, "lost") }); ok || out.result != ResultFail {
		t.Fatalf("%v %+v", ok, out)
	}
	if got := s.last; got.client.Name != "c" || got.to != f.target || got.n != 8 || got.res != f.last || len(got.servers) != 1 {
		t.Errorf("the failure is about %+v", got)
	}
}

// The control of a failure goes its way: to the node that the packets come to, and to the
// servers from where they can be reached.
func TestWays(t *testing.T) {
	probe := &remote.Client{}
	client := func(name, v4, v6 string) Client {
		return Client{Name: name, probe: probe, addrs: families([]netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)})}
	}
	e := &Env{}
	for i, name := range []string{"n1", "n2"} {
		n := &Node{Name: name, Client: client(name, fmt.Sprintf("192.0.2.%d", i+1), fmt.Sprintf("2001:db8::%d", i+1))}
		n.A = &Pod{client(name+"-a", fmt.Sprintf("10.0.%d.1", i+1), fmt.Sprintf("fd00::%d:1", i+1)), n}
		n.B = &Pod{client(name+"-b", fmt.Sprintf("10.0.%d.2", i+1), fmt.Sprintf("fd00::%d:2", i+1)), n}
		e.nodes = append(e.nodes, n)
	}
	n1, n2 := e.nodes[0], e.nodes[1]
	outside := Client{Name: Outside, probe: probe}
	beyond := Client{Name: Outside, probe: probe, router: n2}
	answered := &remote.Results{Attempts: []remote.Result{{Class: remote.OK, Name: "n2-b"}, {Class: remote.Timeout}}}
	at := netip.MustParseAddrPort
	for name, c := range map[string]struct {
		trial trial
		want  []string
	}{
		"nothing": {trial{}, nil},
		"pod to ClusterIP": {trial{client: n1.A.Client, to: UDP(at("10.96.0.1:53")), servers: []Client{n2.A.Client}, res: answered},
			[]string{"n1-a n2-a 10.0.2.1:8080/udp", "n1-a n2-b 10.0.2.2:8080/udp"}},
		"pod to ClusterIP, IPv6": {trial{client: n1.A.Client, to: TCP(at("[fd01::1]:80")), servers: []Client{n2.A.Client, n1.Client}},
			[]string{"n1-a n2-a [fd00::2:1]:8080/tcp", "n1-a n1 [2001:db8::1]:38081/tcp"}},
		"pod to ClusterIP, to be rejected": {trial{client: n1.A.Client, to: UDP(at("10.96.0.1:53"))},
			[]string{"n1-a n1 192.0.2.1:38081/udp", "n1-a n2 192.0.2.2:38081/udp"}},
		"pod to node port": {trial{client: n1.A.Client, to: TCP(at("192.0.2.2:30000")), servers: []Client{n1.B.Client}},
			[]string{"n1-a n2 192.0.2.2:38081/tcp", "n1-a n1-b 10.0.1.2:8080/tcp"}},
		"outside to node port": {trial{client: outside, to: UDP(at("192.0.2.1:30000")), servers: []Client{n2.A.Client}},
			[]string{"outside n1 192.0.2.1:38081/udp", "n1 n2-a 10.0.2.1:8080/udp"}},
		"outside to a load balancer": {trial{client: outside, to: TCP(at("198.51.100.1:80")), servers: []Client{n2.A.Client}},
			[]string{"outside n1 192.0.2.1:38081/tcp", "outside n2 192.0.2.2:38081/tcp", "n1 n2-a 10.0.2.1:8080/tcp", "n2 n2-a 10.0.2.1:8080/tcp"}},
		"beyond a node": {trial{client: beyond, to: UDP(at("198.51.100.1:53")), servers: []Client{n1.A.Client}},
			[]string{"outside n2 192.0.2.2:38081/udp", "n2 n1-a 10.0.1.1:8080/udp"}},
		"SCTP": {trial{client: n1.Client, to: SCTP(at("192.0.2.2:30000")), servers: []Client{n1.A.Client}},
			[]string{"n1 n2 192.0.2.2:38081/tcp", "n1 n1-a 10.0.1.1:8080/sctp"}},
	} {
		var got []string
		for _, w := range e.ways(c.trial) {
			got = append(got, fmt.Sprintf("%s %s %s", w.from.Name, w.to.Name, w.at))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
