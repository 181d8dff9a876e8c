package kit

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/run"
)

// backdrop is a stage whose nodes print the command they are given, and whose load
// balancers' files are in a folder.
type backdrop struct{ dir string }

func (b *backdrop) Kind() string             { return "backdrop" }
func (b *backdrop) Run() cluster.Run         { return "backdrop-aaaaa" }
func (b *backdrop) Cluster() cluster.Cluster { return shell{} }
func (b *backdrop) LB() run.LB               { return folder{dir: b.dir} }

type folder struct {
	run.LB
	dir string
}

func (f folder) Dir(u types.UID) string { return filepath.Join(f.dir, string(u)) }

type shell struct{ cluster.Cluster }

func (shell) Exec(_ context.Context, node string, argv ...string) (string, error) {
	switch {
	case argv[0] == "iptables-legacy-save":
		return "", errors.New("no such program")
	case argv[0] == "iptables-save" && node == "a":
		return "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j DROP\nCOMMIT\n", nil
	}
	return strings.Join(argv, " "), nil
}

// A failure leaves what is known of the behaviour's own Services, of the nodes and
// of the load balancer, and the packets; of other behaviours' Services nothing.
func TestEvidence(t *testing.T) {
	s, c, _ := capturing(t)
	dir := t.TempDir()
	s.env.client, s.env.stage = fake.NewClientset(), &backdrop{dir: dir}
	s.env.nodes[0].Client = Client{Name: "a", addrs: families([]netip.Addr{netip.MustParseAddr("192.0.2.1")})}
	uid := func(id types.UID) func(*corev1.Service) {
		return func(o *corev1.Service) { o.UID, o.Spec.Ports[0].NodePort = id, 30000 }
	}
	s.Service(uid("1")).Endpoints(Address(netip.MustParseAddr("192.0.2.9")), Address(netip.MustParseAddr("192.0.2.9")))
	s.Service(Balanced, uid("2"))
	s.Service(LoadBalanced, uid("3"))
	(&Spec{Family: s.Family, env: s.env, ctx: s.ctx, id: "x-longer"}).Service()
	for _, id := range []string{"1", "2", "3"} {
		if err := os.Mkdir(filepath.Join(dir, id), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, id, "haproxy.cfg"), []byte("global "+id), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := TCP(netip.MustParseAddrPort("192.0.2.2:80"))
	s.tried(trial{client: c, to: to, res: &remote.Results{Attempts: []remote.Result{{Class: remote.Timeout}}}})
	s.env.evidence(s, "It forwards.")
	want := []string{
		"a-conntrack.txt", "a-iptables.txt", "a-nft.txt", "a-packets.txt", "a.pcap", "attempts-captured.txt", "attempts.txt",
		"b-conntrack.txt", "b-nft.txt", "b-packets.txt", "b.pcap", "by-hand.sh", "notes.txt", "objects.yaml", "x-s2-haproxy-state.txt", "x-s2-haproxy.cfg",
	}
	var got []string
	for _, f := range s.files {
		got = append(got, filepath.Base(f))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("files %v\nwant  %v", got, want)
	}
	for file, want := range map[string]string{
		"objects.yaml": "name: x-s1\n", "x-s2-haproxy.cfg": "global 2", "a-iptables.txt": "\n-A INPUT -j DROP\n",
		"a-conntrack.txt": "\nconntrack -L -f ipv4 -p tcp --orig-dst 192.0.2.2 --orig-port-dst 80\n# -f ipv4 -p tcp --reply-src 192.0.2.9\nconntrack",
		"notes.txt":       "was made again to record its packets: 6: 6 refused\n",
	} {
		if got := kept(t, s, file); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwithout %q", file, got, want)
		}
	}
	if got := kept(t, s, "objects.yaml"); strings.Contains(got, "x-longer") {
		t.Errorf("objects of another behaviour:\n%s", got)
	}
	own, err := s.env.client.CoreV1().Services(s.env.namespace).Get(t.Context(), "x-s1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if doors := s.env.doors(s, []*corev1.Service{own}); !slices.Equal(doors, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:30000")}) {
		t.Errorf("where a load balancer reaches the nodes: %v", doors)
	}
}
