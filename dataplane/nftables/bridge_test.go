package nftables_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// With br_netfilter a packet between two pods of one bridge leaves the node's rules with no
// link that it came by: it is a local pod's all the same, and keeps its source. The node's own
// and what comes by another link are masqueraded.
func TestPodsOfOneBridge(t *testing.T) {
	need.Root(t)
	need.File(t, "/proc/sys/net/bridge/bridge-nf-call-iptables", "the kernel module br_netfilter")
	node, client := netns.ForTest(t, "node"), netns.ForTest(t, "client")
	pods := map[string]*netns.NS{"10.244.1.2": netns.ForTest(t, "a"), "10.244.1.3": netns.ForTest(t, "b")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(netns.Veth(netns.End{NS: node, Name: "client", Addrs: prefixes("192.0.2.1/24")}, netns.End{NS: client, Name: "eth0", Addrs: prefixes("192.0.2.2/24")}))
	must(client.Route(netip.MustParsePrefix("0.0.0.0/0"), addr("192.0.2.1")))
	for at, ns := range pods {
		must(netns.Veth(netns.End{NS: node, Name: "veth" + at[len(at)-1:]}, netns.End{NS: ns, Name: "eth0", Addrs: prefixes(at + "/24")}))
		must(ns.Route(netip.MustParsePrefix("0.0.0.0/0"), addr("10.244.1.1")))
	}
	must(node.Do(func() error { return bridge("cni0", "10.244.1.1/24", "veth2", "veth3") }))
	must(node.Route(netip.MustParsePrefix("10.96.0.0/16"), addr("10.244.1.3")))

	echoSource(t, pods["10.244.1.3"], "10.244.1.3:80")
	for _, link := range []plan.Link{"cni0", "cni*"} {
		p := &plan.Plan{Node: plan.Node{LocalLink: link}, Services: map[objects.Name]plan.Service{{Namespace: "ns", Name: "svc"}: {Frontends: []plan.Frontend{{
			Kind: plan.ClusterIP, Key: plan.Key{Addr: addr("10.96.0.1"), Protocol: objects.TCP, Port: 80},
			Outside: plan.Route{Action: plan.Forward, Masquerade: plan.MasqOffCluster, Endpoints: []plan.Endpoint{{Addr: addr("10.244.1.3"), Port: 80, Local: true}}},
		}}}}}
		apply(t, newTarget(t, node), nil, p)
		for _, c := range []struct {
			name string
			from *netns.NS
			at   string // its own address
			sees string
		}{
			{"a pod of the bridge", pods["10.244.1.2"], "10.244.1.2", "10.244.1.2"},
			{"who comes by another link", client, "192.0.2.2", "10.244.1.1"},
			{"the node", node, "192.0.2.1", "10.244.1.1"},
		} {
			if sees, err := seenBy(c.from, c.at, "10.96.0.1:80"); err != nil || sees != c.sees {
				t.Errorf("%s, local pods by %s: the endpoint sees %q, want %s; %v", c.name, link, sees, c.sees, err)
			}
		}
	}
}

// bridge makes one of some links, whose packets meet the rules.
func bridge(name, at string, ports ...string) error {
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	a, err := netlink.ParseAddr(at)
	if err := errors.Join(err, netlink.LinkAdd(br), netlink.AddrAdd(br, a), netlink.LinkSetUp(br)); err != nil {
		return fmt.Errorf("make bridge %s: %w", name, err)
	}
	for _, port := range ports {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return fmt.Errorf("find %s: %w", port, err)
		}
		if err := errors.Join(netlink.LinkSetMaster(l, br), netlink.LinkSetHairpin(l, true)); err != nil {
			return fmt.Errorf("plug %s into %s: %w", port, name, err)
		}
	}
	return errors.Join(os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644),
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644))
}

// echoSource tells each client from where it came.
func echoSource(t *testing.T, ns *netns.NS, at string) {
	t.Helper()
	var l net.Listener
	if err := ns.Do(func() (err error) { l, err = net.Listen("tcp", at); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, c.RemoteAddr().(*net.TCPAddr).IP.String())
			_ = c.Close()
		}
	}()
}

// seenBy is the source that the server says a connection has.
func seenBy(from *netns.NS, at, to string) (string, error) {
	var said []byte
	err := from.Do(func() error {
		d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(at)}}
		c, err := d.DialContext(context.Background(), "tcp", to)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		said, err = io.ReadAll(c)
		return err
	})
	return string(said), err
}
