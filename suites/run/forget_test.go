//go:build linux

package run

import (
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Of what a node remembers that alone goes which nobody answered, at the workload's port.
func TestForget(t *testing.T) {
	node, pod := netns.ForTest(t, "node"), netns.ForTest(t, "pod")
	addr := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	if err := netns.Veth(netns.End{NS: node, Name: "eth0", Addrs: addr("192.0.2.1/24")}, netns.End{NS: pod, Name: "eth0", Addrs: addr("192.0.2.2/24")}); err != nil {
		t.Fatal(err)
	}
	err := pod.Do(func() error {
		l, err := net.Listen("tcp4", "192.0.2.2:30081") // answered
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		return nft("table ip t { chain c { type filter hook input priority 0; tcp dport { 30080, 30082 } drop; }; }")
	})
	if err == nil {
		err = node.Do(func() error { // has the kernel follow connections
			return nft("table ip t { chain c { type filter hook output priority 0; ct state new accept; }; }")
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []string{"30080", "30081", "30082"} {
		err := node.Do(func() error {
			answered := port == "30081"
			c, err := (&net.Dialer{Timeout: map[bool]time.Duration{true: time.Minute, false: time.Second}[answered]}).Dial("tcp4", "192.0.2.2:"+port)
			if err == nil {
				t.Cleanup(func() { c.Close() })
			} else if answered {
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	followed := func() string {
		found := map[uint16]bool{}
		err := node.Do(func() error {
			flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
			for _, f := range flows {
				found[f.Forward.DstPort] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for i, port := range []uint16{30080, 30081, 30082} {
			if found[port] {
				text += string("abc"[i])
			}
		}
		return text
	}
	if got := followed(); got != "abc" {
		t.Fatalf("followed are %q", got)
	}
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{NodePort: 30080}}}}
	p := &play{runner: &runner{nodes: []cluster.Node{{Name: "n1", NetNS: filepath.Join(netns.Dir, node.Name)}, {Name: "beyond"}}}, service: svc}
	if err := p.forget(); err != nil {
		t.Fatal(err)
	}
	if got := followed(); got != "bc" {
		t.Errorf("followed are %q then", got)
	}
	svc.Spec.Ports[0].NodePort = 30081 // answered
	if err := p.forget(); err != nil || followed() != "bc" {
		t.Errorf("%v; followed are %q at the end", err, followed())
	}
}
