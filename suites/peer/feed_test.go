//go:build linux

package peer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/proxyproc"
)

// feed is a kube-proxy in a network, and the API that tells it.
type feed struct {
	net     *dptest.Net
	api     *api.Server
	program string
	mode    string
	dir     string
	agent   *proxyproc.Process // nil before the first case
	options string             // that it runs with
	zone    string             // of its node, as it was last seen to have it
	turn    int                // number of the last sentinel
}

func newFeed(t *testing.T, program, mode string) *feed {
	t.Helper()
	f := &feed{net: dptest.NewNet(t), api: api.New(api.Config{}), program: program, mode: mode}
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
	f.dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(f.dir, "kubeconfig"), api.Kubeconfig(api.URL(l)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f.agent == nil {
			return
		}
		if err := f.agent.Kill(); err != nil {
			t.Error(err)
		}
		if said, err := os.ReadFile(f.agent.Log()); t.Failed() && err == nil {
			t.Logf("kube-proxy said last:\n%s", said[max(0, len(said)-2000):])
		}
	})
	return f
}

// run starts kube-proxy with a case's options, unless it has just these; another
// one is ended first, with its rules.
func (f *feed) run(o plan.Options) error {
	place := proxyproc.Place{
		Dir: f.dir, Kubeconfig: filepath.Join(f.dir, "kubeconfig"), Node: dptest.NodeName, ClusterCIDRs: o.ClusterCIDRs,
		DetectLocal: string(o.Local), LocalLink: string(o.LocalLink), MasqueradeAll: o.MasqueradeAll, NodePorts: o.NodePorts.Within,
	}
	options := fmt.Sprintf("%+v", place)
	if f.agent != nil && f.options == options {
		return nil
	}
	if f.agent != nil {
		if err := f.agent.Kill(); err != nil {
			return err
		}
		if err := f.net.Node.Do(flush); err != nil {
			return err
		}
	}
	spec, err := proxyproc.KubeProxy(f.program, f.mode, true, place)
	if err != nil {
		return err
	}
	f.options, f.zone = options, f.nodeZone()
	f.agent, err = proxyproc.Start(f.net.Node, f.dir, spec)
	return err
}

func flush() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.FlushRuleset()
	return conn.Flush()
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

// clear removes every object of the case before, and leaves the Node of the next one: which
// addresses it has kube-proxy asks when it starts.
func (f *feed) clear(next *dptest.Case) error {
	for _, kind := range []api.Kind{api.Services, api.EndpointSlices, api.ServiceCIDRs} {
		for _, o := range f.api.List(kind) {
			if err := f.api.Delete(kind, key(o)); err != nil {
				return err
			}
		}
	}
	all, err := decode(next.Section("objects.yaml"))
	if err != nil {
		return err
	}
	var node api.Object = defaultNode()
	for _, o := range all {
		if n, ok := o.(*corev1.Node); ok && n.Name == dptest.NodeName {
			node = n
		}
	}
	return f.api.Apply(node)
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
	sentinels, rows := f.sentinels(c.Options.MasqueradeAll)
	if err := f.api.Apply(sentinels...); err != nil {
		return err
	}
	if err := f.follow(ctx, rows); err != nil {
		return err
	}
	f.zone = f.nodeZone()
	return nil
}

// nodeZone is the zone that the API's Node has, "" if none.
func (f *feed) nodeZone() string {
	for _, o := range f.api.List(api.Nodes) {
		if o.GetName() == dptest.NodeName {
			return o.GetLabels()[corev1.LabelTopologyZone]
		}
	}
	return ""
}

func (f *feed) delete(fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	kinds := map[string]api.Kind{"Service": api.Services, "EndpointSlice": api.EndpointSlices, "ServiceCIDR": api.ServiceCIDRs}
	kind, known := kinds[fields[0]]
	if !known || len(fields) != 2 {
		return fmt.Errorf("delete %q: want a kind and a name", strings.Join(fields, " "))
	}
	return f.api.Delete(kind, fields[1])
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
		if sl, ok := o.(*discoveryv1.EndpointSlice); ok {
			nameless(sl)
		}
		out = append(out, o)
	}
	return out, nil
}

// nameless gives ports their default name, as a real API server does: kube-proxy
// passes over those without one.
func nameless(sl *discoveryv1.EndpointSlice) {
	for i := range sl.Ports {
		if sl.Ports[i].Name == nil {
			sl.Ports[i].Name = new(string)
		}
	}
}

// sentinelPatience bounds the wait for kube-proxy to take a step in, which is asked for at every
// pause: kube-proxy has the processors meanwhile.
const (
	sentinelPatience = time.Minute
	sentinelPause    = 5 * time.Millisecond
)

// sentinels are a Service with one endpoint in each family, behind what was
// changed, on the same watches: when they are forwarded, all before is in the
// rules. Each family has a proxier of its own. Of the Node, which has a watch of its own, its
// zone tells: one of two endpoints more is for that zone, or for the one that is no more. Only
// where the zone is known, the first alone is used; without one all hints are void.
func (f *feed) sentinels(masqueraded bool) (all []api.Object, rows []dptest.Row) {
	f.turn++
	hi, lo := 200+byte(f.turn/250), 1+byte(f.turn%250)
	for _, s := range []struct {
		name    string
		family  corev1.IPFamily
		vip, at netip.Addr
	}{
		{"four", corev1.IPv4Protocol, netip.AddrFrom4([4]byte{10, 96, hi, lo}), netip.MustParseAddr("10.244.2.250")},
		{"six", corev1.IPv6Protocol, netip.AddrFrom16([16]byte{0xfd, 3: 0x10, 5: 0x96, 14: hi, 15: lo}), netip.MustParseAddr("fd00:10:244:2::250")},
	} {
		name := fmt.Sprintf("sentinel-%s-%d", s.name, f.turn)
		port, proto := int32(9), corev1.ProtocolTCP
		row := dptest.Row{
			Line: name, From: dptest.PodB, Proto: objects.TCP, To: netip.AddrPortFrom(s.vip, 9),
			Action: plan.Forward, Dests: []dptest.Dest{{At: netip.AddrPortFrom(s.at, 9), Masked: masqueraded}},
		}
		endpoints := []discoveryv1.Endpoint{{Addresses: []string{s.at.String()}}}
		if zone := f.nodeZone(); zone != f.zone {
			endpoints[0].Hints = forZone(cmp.Or(zone, f.zone))
			endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{s.at.Next().String()}, Hints: forZone("elsewhere")})
			if zone == "" {
				row.Dests = append(row.Dests, dptest.Dest{At: netip.AddrPortFrom(s.at.Next(), 9), Masked: masqueraded})
			}
		}
		rows = append(rows, row)
		all = append(all, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "sentinel", Name: name},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, ClusterIP: s.vip.String(), ClusterIPs: []string{s.vip.String()},
				IPFamilies: []corev1.IPFamily{s.family}, Ports: []corev1.ServicePort{{Protocol: proto, Port: port}},
			},
		}, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "sentinel", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressType(s.family), Ports: []discoveryv1.EndpointPort{{Name: new(string), Protocol: &proto, Port: &port}},
			Endpoints: endpoints,
		})
	}
	return all, rows
}

func forZone(name string) *discoveryv1.EndpointHints {
	return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: name}}}
}

// follow waits until the sentinels lead where they should.
func (f *feed) follow(ctx context.Context, rows []dptest.Row) error {
	servers, err := f.net.Serve(ctx, rows)
	if err != nil {
		return err
	}
	defer servers.Close()
	for end := time.Now().Add(sentinelPatience); len(rows) > 0; {
		got, err := f.net.Observe(ctx, rows[0])
		if err == nil && rows[0].Agrees(got) {
			rows = rows[1:]
			continue
		}
		select {
		case <-f.agent.Done():
			return fmt.Errorf("kube-proxy ended: %w", f.agent.Err())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sentinelPause):
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("kube-proxy has not taken the objects in after %v: %s %s", sentinelPatience, rows[0].Line, got.Outcome()), err)
		}
	}
	return nil
}
