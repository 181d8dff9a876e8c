//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/cgroup"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/proxyproc"
)

// The addresses of the world.
var (
	nodeAddr     = netip.MustParseAddr("192.0.2.1")
	podsGateway  = netip.MustParseAddr("198.18.0.1")
	podsAddr     = netip.MustParseAddr("198.18.0.2")
	podCIDR      = netip.MustParsePrefix("10.128.0.0/9")
	everything   = netip.MustParsePrefix("0.0.0.0/0")
	firstSource  = netip.MustParseAddr("192.0.2.100")
	sources      = 8 // addresses of the client
	podPort      = uint16(8080)
	servicePort  = uint16(80)
	nodeName     = "node"
	longInterval = 100 // every so many connections one stays open
)

// world is a node, its client and its pods, and the API that tells the node. Several
// may have one API.
type world struct {
	dir    string
	node   *netns.NS
	group  *cgroup.Group // the node's, of threads of this process, once a row wants one; nil where there can be none
	client *netns.NS
	pods   *netns.NS
	api    *api.Server
	kube   string // path of the kubeconfig
	log    *slog.Logger
	stop   context.CancelFunc
	ended  chan error
	server net.Listener

	datagrams *os.File // what takes them

	generation map[int]int // by Service: of its first endpoint

	patience time.Duration // of the load's clients; 0: patience
	oneSYN   bool          // to them, a connection whose SYN was sent again has failed
}

func newWorld(ctx context.Context, dir string, server *api.Server, log *slog.Logger) (*world, error) {
	w := &world{dir: dir, api: server, log: log, ended: make(chan error, 1), generation: map[int]int{}}
	if err := w.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("build the benchmark's network: %w", err), w.Close())
	}
	return w, nil
}

func (w *world) open(ctx context.Context) error {
	// Several worlds of one process have different names.
	id := fmt.Sprintf("%d-%04x", os.Getpid(), rand.Uint32N(1<<16))
	for name, ns := range map[string]**netns.NS{"node": &w.node, "client": &w.client, "pods": &w.pods} {
		made, err := netns.New(filepath.Base(w.dir) + "-" + name + "-" + id)
		if err != nil {
			return err
		}
		*ns = made
	}
	// By its cookie clean knows what is pinned for the node.
	state := filepath.Join(w.dir, "node", id)
	err := os.MkdirAll(state, 0o755)
	if err == nil {
		err = w.node.Do(func() error { return host.NoteCookie(state) })
	}
	if err != nil {
		return err
	}
	if err := w.connect(); err != nil {
		return err
	}
	if err := w.servePods(ctx); err != nil {
		return err
	}
	return w.serveAPI(ctx, id)
}

func (w *world) connect() error {
	var addrs []netip.Prefix
	for i, a := 0, firstSource; i < sources; i, a = i+1, a.Next() {
		addrs = append(addrs, netip.PrefixFrom(a, 24))
	}
	err := errors.Join(
		netns.Veth(netns.End{NS: w.node, Name: "client", Addrs: []netip.Prefix{netip.PrefixFrom(nodeAddr, 24)}}, netns.End{NS: w.client, Name: "eth0", Addrs: addrs}),
		netns.Veth(netns.End{NS: w.node, Name: "pods", Addrs: []netip.Prefix{netip.PrefixFrom(podsGateway, 30)}}, netns.End{NS: w.pods, Name: "eth0", Addrs: []netip.Prefix{netip.PrefixFrom(podsAddr, 30)}}),
	)
	if err != nil {
		return err
	}
	return errors.Join(
		w.client.Route(everything, nodeAddr), w.pods.Route(everything, podsGateway), w.node.Route(podCIDR, podsAddr), w.node.Route(everything, firstSource),
		w.node.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) }),
		w.client.Do(func() error {
			return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("1024 65535"), 0o644)
		}),
		w.pods.Do(allLocal),
	)
}

// allLocal makes every pod address local (AnyIP), so that one server is all pods.
func allLocal() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	dst := &net.IPNet{IP: podCIDR.Addr().AsSlice(), Mask: net.CIDRMask(podCIDR.Bits(), 32)}
	r := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}
	if err := netlink.RouteAdd(r); err != nil {
		return fmt.Errorf("make %s local: %w", podCIDR, err)
	}
	return os.WriteFile("/proc/sys/net/core/somaxconn", []byte("4096"), 0o644)
}

// servePods answers each connection with the address that was reached.
func (w *world) servePods(ctx context.Context) error {
	err := w.pods.Do(func() (err error) {
		var lc net.ListenConfig
		w.server, err = lc.Listen(ctx, "tcp4", netip.AddrPortFrom(netip.IPv4Unspecified(), podPort).String())
		return errors.Join(err, w.listenUDP())
	})
	if err != nil {
		return fmt.Errorf("serve as the pods: %w", err)
	}
	go func() {
		for {
			c, err := w.server.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	return nil
}

// answer says who was reached, and says so again for every byte that comes.
func answer(c net.Conn) {
	defer c.Close()
	at := c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().As4()
	buf := make([]byte, 1)
	for {
		if _, err := c.Write(at[:]); err != nil {
			return
		}
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// serveAPI serves the API on the node's loopback.
func (w *world) serveAPI(ctx context.Context, id string) error {
	var l net.Listener
	err := w.node.Do(func() (err error) {
		var lc net.ListenConfig
		l, err = lc.Listen(ctx, "tcp4", "127.0.0.1:0")
		return err
	})
	if err != nil {
		return fmt.Errorf("serve the API: %w", err)
	}
	ctx, w.stop = context.WithCancel(ctx)
	go func() { w.ended <- w.api.Serve(ctx, l) }()
	w.kube = filepath.Join(w.dir, "kubeconfig-"+id)
	return os.WriteFile(w.kube, api.Kubeconfig(api.URL(l)), 0o600)
}

// place is what a proxy is told.
func (w *world) place() proxyproc.Place {
	return proxyproc.Place{Dir: w.dir, Kubeconfig: w.kube, Node: nodeName, ClusterCIDRs: []netip.Prefix{podCIDR}}
}

// wantGroup gives the node a cgroup, for dataplanes that know its own connections by that. Where there can be none it
// says what the row lacks, and why.
func (w *world) wantGroup(r Row) (lacks string) {
	if w.group != nil || cluster.BackendOf(r.Mode).CgroupFlag == "" || !r.Own() {
		return ""
	}
	var err error
	if w.group, err = cgroup.Threads(w.node.Name); err == nil && w.group == nil {
		err = errors.New("this process may make no cgroup")
	}
	if err != nil {
		return "the node's own connections are not served: " + err.Error()
	}
	return ""
}

// groupEnd is how long threads may take to end that acted as the node.
const groupEnd = 10 * time.Second

// Close takes everything down.
func (w *world) Close() error {
	var all error
	if w.stop != nil {
		w.stop()
		all = errors.Join(all, <-w.ended)
	}
	if w.server != nil {
		all = errors.Join(all, w.server.Close())
	}
	if w.datagrams != nil {
		all = errors.Join(all, w.datagrams.Close())
	}
	all = errors.Join(all, w.group.Remove(groupEnd))
	for _, ns := range []*netns.NS{w.client, w.pods, w.node} {
		if ns != nil {
			all = errors.Join(all, ns.Close())
		}
	}
	return all
}
