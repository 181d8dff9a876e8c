package promise

const keps = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/"

// What KEPs say of every implementation of Services, word for word. KEP-1669 is called after
// kube-proxy and says of all traffic, by the policy of its Service, where it goes. The
// documentation has taken over what it is for, and that alone: under policy Local, at node ports
// and load balancers, terminating endpoints drain (DrainLocal). That binds everybody; that they
// are fallen back to under policy Cluster, at a ClusterIP and at external IPs is a feature to declare.
var ( // const
	AllTerminating = Promise{Kind: KEP, Where: keps + "1669-proxy-terminating-endpoints", Over: terminating, Since: "1.26", Optional: "terminating-fallback",
		Quote: `if all endpoints for a given Service scoped to its traffic policy are terminating (i.e. pod.DeletionTimestamp != nil), then all traffic should be sent to terminating Pods that are still Ready.`}
	SomeTerminating = Promise{Kind: KEP, Where: keps + "1669-proxy-terminating-endpoints", Over: someEnd, Since: "1.26",
		Quote: `When the traffic policy is "Cluster" and some endpoints are terminating, all traffic should be routed to the ready endpoints that are not terminating`}
	SomeTerminatingLocal = Promise{Kind: KEP, Where: keps + "1669-proxy-terminating-endpoints", Over: someEndLocal, Since: "1.26", Optional: "terminating-fallback",
		Quote: `When the traffic policy is "Local" and all endpoints are terminating within a single node, then traffic should be routed to any terminating endpoint that is ready on that node.`}
	TerminatingNotServing = Promise{Kind: KEP, Where: keps + "1669-proxy-terminating-endpoints", Over: notServing, Since: "1.26",
		Quote: `traffic should not be routed to terminating pods if their readiness probe is failing, even if it is the only endpoints remaining.`}
	ConnectionsEnd = Promise{Kind: KEP, Where: keps + "1669-proxy-terminating-endpoints", NoPath: ofFlows, Since: "1.26",
		Quote: `allow existing connections to gracefully terminate`}
	InternalLocalOnly = Promise{Kind: KEP, Where: keps + "2086-service-internal-traffic-policy", Over: internal, Since: "1.22",
		Quote: `Local: only route to node-local endpoints, drop otherwise.`}
	InternalIndependent = Promise{Kind: KEP, Where: keps + "2086-service-internal-traffic-policy", NoPath: ofFields, Since: "1.22",
		Quote: `This field will be independent from externalTrafficPolicy. In other words, internalTrafficPolicy only applies to traffic originating from internal sources.`}
	PolicyBeforeHints = Promise{Kind: KEP, Where: keps + "2433-topology-aware-hints", NoPath: ofTopology, Since: "1.24",
		Quote: `Both ExternalTrafficPolicy and InternalTrafficPolicy will be given precedence over topology aware routing.`}
	SameZone = Promise{Kind: KEP, Where: keps + "3015-prefer-same-node", NoPath: ofTopology, Since: "1.34", Optional: "zone-hints",
		Quote: `In general, the proxy should always route to a same-zone endpoint if any is available.`}
	SameNode = Promise{Kind: KEP, Where: keps + "3015-prefer-same-node", NoPath: ofTopology, Since: "1.34", Optional: "node-hints",
		Quote: `In general, the proxy should always route to a same-node endpoint if any is available.`}
	RemoteIfNot = Promise{Kind: KEP, Where: keps + "3015-prefer-same-node", NoPath: ofTopology, Since: "1.34",
		Quote: `connections will be delivered to a local endpoint when possible, and a remote endpoint if not.`}
)
