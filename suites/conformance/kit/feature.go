package kit

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Feature is something a dataplane declares to have or not: what the API makes optional, or
// a class of dataplanes documents otherwise.
type Feature string

// TerminatingFallback is KEP-1669: with no other endpoint, serving terminating ones are used,
// under every policy and at every address. What the documentation says of policy Local at node
// ports and load balancers behaviours ask of everybody; scenarios hold to all of it who declares it.
const TerminatingFallback Feature = "terminating-fallback"

// Features of behaviours.
const (
	FeatureSCTP               Feature = "sctp"
	FeatureLoopback           Feature = "nodeport-loopback"           // node ports at 127.0.0.1
	FeatureShortCircuit       Feature = "nodeport-short-circuit"      // under Local a node and its pods reach all endpoints by its node ports
	FeatureLocalForNodes      Feature = "nodeport-local-from-nodes"   // under Local a node gets by another's port the endpoints there alone
	FeatureSpread             Feature = "spread-per-client"           // one client reaches all endpoints; not where its address decides
	FeatureMasquerade         Feature = "cluster-policy-masquerade"   // under Cluster endpoints see the node that forwards; not with direct return
	FeatureClusterIPSource    Feature = "clusterip-source-kept"       // endpoints see the pod that dials a ClusterIP
	FeatureExternalIPs        Feature = "external-ips"                // which may be refused at admission, and are deprecated
	FeatureIPMode             Feature = "load-balancer-ip-mode"       // the address of a load balancer in mode Proxy is left alone
	FeatureSourceRanges       Feature = "load-balancer-source-ranges" // "if supported by the platform"
	FeatureRangesDrop         Feature = "source-ranges-drop"          // who is in none is dropped, not refused
	FeatureRangesOnNodes      Feature = "source-ranges-on-nodes"      // they hold for processes on nodes
	FeatureRangesOnPods       Feature = "source-ranges-on-pods"       // they hold for pods
	FeatureZoneHints          Feature = "zone-hints"                  // of EndpointSlices
	FeatureNodeHints          Feature = "node-hints"                  // of EndpointSlices
	FeatureProxyName          Feature = "service-proxy-name"          // Services of another proxy are left to it
	FeatureHealthz            Feature = "proxy-healthz"               // how the proxy of a node is, by HTTP
	FeatureLivez              Feature = "proxy-livez"                 // the same, whether or not the node is to be deleted
	FeatureAffinityPerPort    Feature = "affinity-per-port"           // not one record for all ports of a Service
	FeatureAffinityShared     Feature = "affinity-shared-over-fronts" // not one record for each kind of address
	FeatureAffinitySliding    Feature = "affinity-sliding-timeout"    // from the last connection, not the first
	FeatureAffinitySurvives   Feature = "affinity-survives-restart"   // of the agents
	FeatureConnectedUDP       Feature = "connected-udp-follows"       // not where connect(2) itself chooses the endpoint
	FeatureConnectionsSurvive Feature = "connections-survive-restart" // of the agents
	FeatureForwardsAlone      Feature = "forwards-without-agent"      //
	FeatureICMPErrors         Feature = "icmp-errors-translated"      // of endpoints reach clients; not where connections end at the proxy
)

// Has tells whether the dataplane has a feature that a part of the behaviour is about. External IPs it has not
// where the cluster refuses them. A part that is left out is said.
func (s *Spec) Has(f Feature) bool {
	_, lacks := s.env.cfg.Features[f]
	lacks = lacks || f == FeatureExternalIPs && s.env.denied != nil
	return !lacks || s.leftOut(string(f))
}

// Met tells whether there is what a part of the behaviour needs.
func (s *Spec) Met(n Need) bool {
	lacks := s.planned == nil && s.env.missing(n) != ""
	return !lacks || s.leftOut(string(n))
}

// leftOut says once what a part was about that is not asked.
func (s *Spec) leftOut(what string) bool {
	if said := "left out: what is about " + what; !slices.Contains(s.said, said) {
		s.Say("%s", said)
	}
	return false
}

// findDenied asks, and makes nothing, whether the cluster refuses external IPs.
func (e *Env) findDenied(ctx context.Context) error {
	ask := func(externalIPs ...string) error {
		o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "external-ips"}}
		o.Spec.Ports, o.Spec.ExternalIPs = []corev1.ServicePort{{Port: 80}}, externalIPs
		_, err := e.client.CoreV1().Services(e.namespace).Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	err := ask("192.0.2.1")
	if err == nil {
		return nil
	}
	if without := ask(); without != nil { // it is not for them
		return fmt.Errorf("ask whether Services may have external IPs: %w", err)
	}
	e.denied = err // by whatever admission
	return nil
}
