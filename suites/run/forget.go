package run

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// forget has the nodes that are within reach forget connections to the workload's node port that
// nobody answered. A node remembers those for two minutes (nf_conntrack_tcp_timeout_syn_sent), with
// the pod they were sent to: whoever comes from the same port meanwhile, as a load balancer of one
// address does, follows them to a pod that is gone since an earlier rollout, or a row before.
func (p *play) forget() error {
	port := uint16(p.service.Spec.Ports[0].NodePort)
	var all error
	for _, n := range p.nodes {
		if n.NetNS == "" {
			continue
		}
		err := netns.At(n.NetNS).Do(func() error {
			for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
				if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, unanswered{port}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			all = errors.Join(all, fmt.Errorf("have node %s forget connections that nobody answered: %w", n.Name, err))
		}
	}
	return all
}

// unanswered are TCP connections to a port of which only the SYN was seen.
type unanswered struct{ port uint16 }

// MatchConntrackFlow is netlink's question.
func (u unanswered) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	const synSent = 1 // TCP_CONNTRACK_SYN_SENT (uapi/linux/netfilter/nf_conntrack_tcp.h)
	tcp, ok := f.ProtoInfo.(*netlink.ProtoInfoTCP)
	return ok && tcp.State == synSent && f.Forward.Protocol == unix.IPPROTO_TCP && f.Forward.DstPort == u.port
}
