package lbprovider

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/balancer"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// standing is one instance that runs.
type standing struct {
	instance.Instance
	gone bool
}

func (s *standing) List(context.Context) ([]instance.Instance, error) {
	if s.gone {
		return nil, nil
	}
	return []instance.Instance{s.Instance}, nil
}
func (s *standing) Matches(instance.Instance, instance.Spec) bool { return true }
func (s *standing) Start(context.Context, instance.Spec) error    { return nil }
func (s *standing) Stop(context.Context, string) error            { s.gone = true; return nil }
func (s *standing) ComeFirst(string)                              {}
func (s *standing) Taken(context.Context) (map[netip.Addr]string, error) {
	return map[netip.Addr]string{}, nil
}

// What the controller is told of a load balancer: HAProxy ends the client's connection, so
// the mode is Proxy, and a range says which ports there are; nothing once it is deleted.
func TestStatus(t *testing.T) {
	rec, err := records.New("", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	svc := &v1.Service{Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 18188}, {Port: 443}}}}
	svc.UID = "uid-web"
	there := &standing{Instance: instance.Instance{
		Name: instance.Name("test", "uid-web"), Running: true,
		Addrs: []netip.Addr{netip.MustParseAddr("127.77.0.9"), netip.MustParseAddr("fd00::9")},
	}}
	fleet := balancer.New(balancer.Config{
		Cluster: "test", StateDir: t.TempDir(), Instances: there, Recorder: rec, Profile: profile.Profile{},
		Ranges: map[lbplan.Family]netip.Prefix{}, Log: slog.New(slog.DiscardHandler),
	})
	p := New(fleet)
	if got := p.GetLoadBalancerName(t.Context(), "", svc); got != there.Name {
		t.Errorf("name %q, want %q", got, there.Name)
	}
	got, ok, err := p.GetLoadBalancer(t.Context(), "", svc)
	if err != nil || !ok || len(got.Ingress) != 2 {
		t.Fatalf("%+v, %t, %v", got, ok, err)
	}
	for i, in := range got.Ingress {
		if in.IP != there.Addrs[i].String() || in.IPMode == nil || *in.IPMode != v1.LoadBalancerIPModeProxy || len(in.Ports) != 2 ||
			in.Ports[0] != (v1.PortStatus{Port: 18188, Protocol: v1.ProtocolTCP}) || in.Ports[1].Port != 443 {
			t.Errorf("ingress %d: %+v", i, in)
		}
	}
	if err := p.EnsureLoadBalancerDeleted(t.Context(), "", svc); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := p.GetLoadBalancer(t.Context(), "", svc); got != nil || ok || err != nil {
		t.Errorf("after its end: %+v, %t, %v", got, ok, err)
	}
	if err := p.UpdateLoadBalancer(t.Context(), "", svc, nil); err == nil {
		t.Error("an update of what was deleted: nil, of which the controller makes an Event that it was updated")
	}
}
