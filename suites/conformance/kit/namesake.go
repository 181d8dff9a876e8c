package kit

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
)

// Namesake makes a Service like this one, of the same name, in a namespace of its own, with a pod as its
// endpoint; all of it goes when the behaviour ends. It returns where that one is reached, by its first port, and
// its healthCheckNodePort at a node.
func (v *Service) Namesake(p *Pod) (to Target, health func(*Node) netip.AddrPort) {
	s := v.spec
	ns := s.ownNamespace()
	draft := v.draft.DeepCopy()
	draft.Namespace = ns
	made, err := s.env.client.CoreV1().Services(ns).Create(s.ctx, draft, metav1.CreateOptions{})
	s.must(err, "make Service %s in namespace %s", v.draft.Name, ns)
	slice := s.slice(made, "a", nil, []Endpoint{p.Ready()})
	_, err = s.env.client.DiscoveryV1().EndpointSlices(ns).Create(s.ctx, slice, metav1.CreateOptions{})
	s.must(err, "write EndpointSlice %s in namespace %s", slice.Name, ns)
	s.did(nil, "made Service %s in namespace %s too: %s; %s", made.Name, ns, serviceText(made), sliceText(slice))
	s.changed()
	to = TCP(netip.AddrPortFrom(netip.MustParseAddr(made.Spec.ClusterIP), uint16(made.Spec.Ports[0].Port)))
	return to, func(n *Node) netip.AddrPort {
		return netip.AddrPortFrom(n.Addr(s.Family), uint16(made.Spec.HealthCheckNodePort))
	}
}

// ownNamespace makes a namespace, which goes when the behaviour ends.
func (s *Spec) ownNamespace() string {
	run := cluster.Run("planned")
	if s.planned == nil {
		run = s.env.stage.Run()
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: run.Namespace(fmt.Sprintf("%x-conformance", time.Now().UnixNano())), Labels: run.Labels()}}
	made, err := s.env.client.CoreV1().Namespaces().Create(s.ctx, ns, metav1.CreateOptions{})
	s.must(err, "make namespace %s", ns.Name)
	s.onEnd(func() error {
		return s.env.client.CoreV1().Namespaces().Delete(context.WithoutCancel(s.ctx), made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}})
	})
	return made.Name
}
