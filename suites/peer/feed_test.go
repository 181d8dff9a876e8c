//go:build linux

package peer

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/agent"
	"github.com/plumbline/plumbline/fixtures/api"
)

// feed is a kube-proxy in a network, and the API that tells it.
type feed struct {
	net   *dptest.Net
	api   *api.Server
	agent *agent.Agent
	turn  int // number of the last sentinel
}

func newFeed(t *testing.T, program, mode string) *feed {
	t.Helper()
	f := &feed{net: dptest.NewNet(t), api: api.New(api.Config{})}
	var l net.Listener
	err := f.net.Node.Do(func() (err error) {
		var lc net.ListenConfig
		l, err = lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.api.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := f.api.Apply(defaultNode()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := agent.Place{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), Node: dptest.NodeName, ClusterCIDRs: []netip.Prefix{
		netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56"),
	}}
	if err := os.WriteFile(at.Kubeconfig, api.Kubeconfig(api.URL(l)), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, err := agent.KubeProxy(program, mode, true, at)
	if err != nil {
		t.Fatal(err)
	}
	if f.agent, err = agent.Start(f.net.Node, dir, spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.agent.Kill(); err != nil {
			t.Error(err)
		}
		if said, err := os.ReadFile(f.agent.Log()); t.Failed() && err == nil {
			t.Logf("kube-proxy said last:\n%s", said[max(0, len(said)-2000):])
		}
	})
	return f
}

// defaultNode is the contract's Node, as the API has it.
func defaultNode() *corev1.Node {
	n := dptest.Node()
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	for _, p := range n.PodCIDRs {
		out.Spec.PodCIDRs = append(out.Spec.PodCIDRs, p.String())
	}
	out.Spec.PodCIDR = out.Spec.PodCIDRs[0]
	for _, a := range n.InternalIPs {
		out.Status.Addresses = append(out.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	return out
}

// clear removes every object of the case before.
func (f *feed) clear() error {
	for _, kind := range []api.Kind{api.Services, api.EndpointSlices, api.ServiceCIDRs} {
		for _, o := range f.api.List(kind) {
			if err := f.api.Delete(kind, key(o)); err != nil {
				return err
			}
		}
	}
	return f.api.Apply(defaultNode())
}

func key(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// step brings the API to a step of a case, and waits until kube-proxy has it.
func (f *feed) step(ctx context.Context, c *dptest.Case, s *dptest.Step) error {
	for line := range strings.Lines(c.Section(s.Section("delete"))) {
		if err := f.delete(strings.Fields(strings.Split(line, "#")[0])); err != nil {
			return err
		}
	}
	text := c.Section("objects.yaml")
	if s.Number > 1 {
		text = c.Section(fmt.Sprintf("then-%d.yaml", s.Number))
	}
	all, err := decode(text)
	if err != nil {
		return err
	}
	if err := f.api.Apply(all...); err != nil {
		return err
	}
	return f.sentinel(ctx)
}

func (f *feed) delete(fields []string) error {
	if len(fields) != 2 {
		return nil
	}
	kinds := map[string]api.Kind{"Service": api.Services, "EndpointSlice": api.EndpointSlices, "ServiceCIDR": api.ServiceCIDRs}
	return f.api.Delete(kinds[fields[0]], fields[1])
}

// decode reads API objects; the cases leave the apiVersion out.
func decode(text string) ([]api.Object, error) {
	var out []api.Object
	for _, doc := range bytes.Split([]byte("\n"+text), []byte("\n---")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &meta); err != nil {
			return nil, err
		}
		kinds := map[string]api.Object{
			"Service": &corev1.Service{}, "EndpointSlice": &discoveryv1.EndpointSlice{}, "Node": &corev1.Node{}, "ServiceCIDR": &networkingv1.ServiceCIDR{},
		}
		o := kinds[meta.Kind]
		if o == nil {
			continue
		}
		if err := yaml.UnmarshalStrict(doc, o); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// sentinelPatience bounds the wait for kube-proxy to take a step in.
const sentinelPatience = 20 * time.Second

// sentinel adds a Service of its own behind what was changed, on the same
// watches, and waits until it is forwarded: then all before it is in the rules.
func (f *feed) sentinel(ctx context.Context) error {
	f.turn++
	vip := netip.AddrFrom4([4]byte{10, 96, 200 + byte(f.turn/250), 1 + byte(f.turn%250)})
	at := netip.MustParseAddrPort("10.244.2.250:9")
	name := fmt.Sprintf("sentinel-%d", f.turn)
	port, proto := int32(at.Port()), corev1.ProtocolTCP
	err := f.api.Apply(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "sentinel", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: vip.String(), ClusterIPs: []string{vip.String()},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Protocol: proto, Port: 9}},
		},
	}, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "sentinel", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(string), Protocol: &proto, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
	})
	if err != nil {
		return err
	}
	row := dptest.Row{Line: "sentinel", From: dptest.PodB, Proto: objects.TCP, To: netip.AddrPortFrom(vip, 9), Action: plan.Forward, Dests: []dptest.Dest{{At: at}}}
	servers, err := f.net.Serve([]dptest.Row{row})
	if err != nil {
		return err
	}
	defer servers.Close()
	for end := time.Now().Add(sentinelPatience); ; {
		got, err := f.net.Observe(ctx, row)
		if err == nil && row.Agrees(got) {
			return nil
		}
		select {
		case <-f.agent.Done():
			return fmt.Errorf("kube-proxy ended: %w", f.agent.Err())
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("kube-proxy has not taken the objects in after %v: %v %w", sentinelPatience, got.Outcome(), err)
		}
	}
}
