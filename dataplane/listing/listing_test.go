package listing

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// An id stays with its frontend as long as that is there.
func TestIDs(t *testing.T) {
	p := func(ips ...string) *plan.Plan {
		out := &plan.Plan{Services: map[objects.Name]plan.Service{}}
		for _, ip := range ips {
			k := plan.Key{Addr: netip.MustParseAddr(ip), Protocol: objects.TCP, Port: 80}
			out.Services[objects.Name{Name: ip}] = plan.Service{Frontends: []plan.Frontend{{Key: k, Kind: plan.ClusterIP}}}
		}
		return out
	}
	n := &Numbers{}
	ids := func(p *plan.Plan) (out []int) {
		for _, f := range n.List(p, nil) {
			out = append(out, f.ID)
		}
		return out
	}
	for _, c := range []struct {
		plan *plan.Plan
		want []int
	}{
		{p("10.0.0.2", "10.0.0.4"), []int{1, 2}},
		{p("10.0.0.1", "10.0.0.2", "10.0.0.4"), []int{3, 1, 2}},
		{p("10.0.0.1", "10.0.0.4"), []int{3, 2}},
		{p("10.0.0.1", "10.0.0.2"), []int{3, 4}},
	} {
		if diff := cmp.Diff(c.want, ids(c.plan)); diff != "" {
			t.Errorf("ids (-want +got):\n%s", diff)
		}
	}
}

func TestFrontendNames(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")
	for text, want := range map[string]plan.Key{
		"10.96.0.1:443/TCP":        {Addr: v4, Protocol: objects.TCP, Port: 443},
		"10.96.0.1:443":            {Addr: v4, Protocol: objects.TCP, Port: 443},
		"udp://10.96.0.1:53":       {Addr: v4, Protocol: objects.UDP, Port: 53},
		"::ffff:10.96.0.1":         {},
		"[::ffff:10.96.0.1]:9/tcp": {Addr: v4, Protocol: objects.TCP, Port: 9},
		"[fd00::1]:443/sctp":       {IPv6: true, Addr: v6, Protocol: objects.SCTP, Port: 443},
		"node:30080/UDP":           {Protocol: objects.UDP, Port: 30080},
		"tcp://node6:30080":        {IPv6: true, Protocol: objects.TCP, Port: 30080},
		"node:0/TCP":               {},
		"node:70000":               {},
		"10.96.0.1:0":              {},
		"10.96.0.1:80/icmp":        {},
		"web.ns:80":                {},
		"":                         {},
	} {
		got, err := ParseKey(text)
		if got != want || (err != nil) != (want == plan.Key{}) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
		if err == nil {
			if again, err := ParseKey(KeyText(got)); err != nil || again != got {
				t.Errorf("%q, printed and read again, is %v, %v", text, again, err)
			}
		}
	}
}

// A frontend that the kernel refused, or lacks, is listed as that with its backends.
func TestNotThere(t *testing.T) {
	key := func(port uint16) plan.Key {
		return plan.Key{Addr: netip.MustParseAddr("10.0.0.1"), Protocol: objects.TCP, Port: port}
	}
	var svc plan.Service
	for port := range uint16(3) {
		svc.Frontends = append(svc.Frontends, plan.Frontend{
			Key: key(port + 1), Kind: plan.ClusterIP,
			Outside: plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: netip.MustParseAddr("10.1.0.1"), Port: 80}}},
		})
	}
	p := &plan.Plan{Services: map[objects.Name]plan.Service{{Name: "web"}: svc}}
	not := map[plan.Key]error{key(2): errors.New("no room"), key(3): ErrMissing}
	var got []string
	for _, f := range (&Numbers{}).List(p, not) {
		got = append(got, f.State+" "+f.Backends[0].State+" "+f.Why)
	}
	want := []string{"active active ", "refused refused no room", "missing missing " + ErrMissing.Error()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
