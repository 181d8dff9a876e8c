package promise

const (
	core      = "https://pkg.go.dev/k8s.io/api/core/v1#"
	discovery = "https://pkg.go.dev/k8s.io/api/discovery/v1#"
)

// What the comments of the Service say (k8s.io/api/core/v1), word for word.
var ( // const
	ClusterIP = Promise{Kind: API, Where: core + "ServiceSpec", Over: atClusterIP, Since: first,
		Quote: `"ClusterIP" allocates a cluster-internal IP address for load-balancing to endpoints.`}
	NodePort = Promise{Kind: API, Where: core + "ServiceSpec", Over: atNodePorts, Since: first,
		Quote: `"NodePort" builds on ClusterIP and allocates a port on every node which routes to the same endpoints as the clusterIP.`}
	LoadBalancer = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofBalancers, Since: first,
		Quote: `"LoadBalancer" builds on NodePort and creates an external load-balancer (if supported in the current cloud) which routes to the same endpoints as the clusterIP.`}
	NodePortWiped = Promise{Kind: API, Where: core + "ServicePort", NoPath: ofFields, Since: first,
		Quote: `This field will be wiped when updating a Service to no longer need it (e.g. changing type from NodePort to ClusterIP).`}
	NoProxying = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofNoService, Since: first,
		Quote: `No proxying will be involved.`}
	ExternalIPs = Promise{Kind: API, Where: core + "ServiceSpec", Over: atExternals, Since: first,
		Quote: `externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service.`}
	ExternalLocal = Promise{Kind: API, Where: core + "ServiceSpec", Over: localOutside, Since: first,
		Quote: `each node will deliver traffic only to the node-local endpoints of the service, without masquerading the client source IP.`}
	ExternalLocalDrops = Promise{Kind: API, Where: core + "ServiceSpec", Over: noneOutside, Since: first,
		Quote: `(Traffic mistakenly sent to a node with no endpoints will be dropped.)`}
	ExternalFromInside = Promise{Kind: API, Where: core + "ServiceSpec", Over: localInside, Since: first,
		Quote: `Note that traffic sent to an External IP or LoadBalancer IP from within the cluster will always get "Cluster" semantics, but clients sending to a NodePort from within the cluster may need to take traffic policy into account when picking a node.`}
	ExternalPolicy = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofFields, Since: first,
		Quote: `externalTrafficPolicy describes how nodes distribute service traffic they receive on one of the Service's "externally-facing" addresses (NodePorts, ExternalIPs, and LoadBalancer IPs).`}
	AllEvenly = Promise{Kind: API, Where: core + "ServiceSpec", Over: evenly, Since: first,
		Quote: `The default value, "Cluster", uses the standard behavior of routing to all endpoints evenly (possibly modified by topology and other features).`}
	InternalLocal = Promise{Kind: API, Where: core + "ServiceSpec", Over: internal, Since: "1.22",
		Quote: `If set to "Local", the proxy will assume that pods only want to talk to endpoints of the service on the same node as the pod, dropping the traffic if there are no local endpoints.`}
	InternalPolicy = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofFields, Since: "1.22",
		Quote: `InternalTrafficPolicy describes how nodes distribute service traffic they receive on the ClusterIP.`}
	HealthCheckNodePort = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofHealth, Since: first,
		Quote: `External systems (e.g. load-balancers) can use this port to determine if a given node holds endpoints for this service or not.`}
	HealthCheckNodePortOnly = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofHealth, Since: first,
		Quote: `This only applies when type is set to LoadBalancer and externalTrafficPolicy is set to Local.`}
	SourceRanges = Promise{Kind: API, Where: core + "ServiceSpec", Over: restricted, Since: first, Optional: "load-balancer-source-ranges",
		Quote: `If specified and supported by the platform, this will restrict traffic through the cloud-provider load-balancer will be restricted to the specified client IPs.`}
	AffinityTimeout = Promise{Kind: API, Where: core + "ClientIPConfig", NoPath: ofTime, Since: first,
		Quote: `timeoutSeconds specifies the seconds of ClientIP type session sticky time.`}
	PublishNotReady = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: elsewhere, Since: first,
		Quote: `publishNotReadyAddresses indicates that any agent which deals with endpoints for this Service should disregard any indications of ready/not-ready.`}
	PortName = Promise{Kind: API, Where: core + "ServicePort", NoPath: elsewhere, Since: first,
		Quote: `When considering the endpoints for a Service, this must match the 'name' field in the EndpointPort.`}
	Protocols = Promise{Kind: API, Where: core + "ServicePort", NoPath: elsewhere, Since: first,
		Quote: `The IP protocol for this port. Supports "TCP", "UDP", and "SCTP".`}
	Ingress = Promise{Kind: API, Where: core + "LoadBalancerStatus", Over: atBalancers, Since: first,
		Quote: `Traffic intended for the service should be sent to these ingress points.`}
	IngressHostname = Promise{Kind: API, Where: core + "LoadBalancerIngress", NoPath: ofFields, Since: first,
		Quote: `Hostname is set for load-balancer ingress points that are DNS based`}
	IPMode = Promise{Kind: API, Where: core + "LoadBalancerIngress", NoPath: ofFields, Since: "1.30", Optional: "load-balancer-ip-mode",
		Quote: `Service implementations may use this information to adjust traffic routing.`}
	IPModeVIP = Promise{Kind: API, Where: core + "LoadBalancerIngress", Over: atBalancers, Since: "1.30",
		Quote: `Setting this to "VIP" indicates that traffic is delivered to the node with the destination set to the load-balancer's IP and port.`}
	LoadBalancerClass = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofFields, Since: "1.22",
		Quote: `If set, it is assumed that a load balancer implementation is watching for Services with a matching class.`}
	NoNodePorts = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofFields, Since: "1.22",
		Quote: `It may be set to "false" if the cluster load-balancer does not rely on NodePorts.`}
	Families = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: follows, Since: first,
		Quote: `This field is conditionally mutable: it allows for adding or removing a secondary IP family, but it does not allow changing the primary IP family of the Service.`}
	Distribution = Promise{Kind: API, Where: core + "ServiceSpec", NoPath: ofTopology, Since: "1.31", Optional: "zone-hints",
		Quote: `Implementations can use this field as a hint, but are not required to guarantee strict adherence.`}
)

// What the comments of the EndpointSlice say (k8s.io/api/discovery/v1) and of the
// ServiceCIDR (k8s.io/api/networking/v1), word for word.
var ( // const
	Ready = Promise{Kind: API, Where: discovery + "EndpointConditions", Over: unready, Since: first,
		Quote: `ready indicates that this endpoint is ready to receive traffic, according to whatever system is managing the endpoint. A nil value should be interpreted as "true".`}
	Serving = Promise{Kind: API, Where: discovery + "EndpointConditions", NoPath: elsewhere, Since: "1.22",
		Quote: `serving indicates that this endpoint is able to receive traffic, according to whatever system is managing the endpoint.`}
	ServingUnset = Promise{Kind: API, Where: discovery + "EndpointConditions", NoPath: elsewhere, Since: "1.22",
		Quote: `For endpoints backed by pods, the EndpointSlice controller will mark the endpoint as serving if the pod's Ready condition is True. A nil value should be interpreted as "true".`}
	Slices = Promise{Kind: API, Where: discovery + "EndpointSlice", NoPath: follows, Since: first,
		Quote: `For a given service there may be multiple EndpointSlice objects which must be joined to produce the full set of endpoints`}
	SlicePorts = Promise{Kind: API, Where: discovery + "EndpointSlice", NoPath: follows, Since: first,
		Quote: `ports specifies the list of network ports exposed by each endpoint in this slice.`}
	AddressType = Promise{Kind: API, Where: discovery + "EndpointSlice", NoPath: follows, Since: first,
		Quote: `All addresses in this slice must be the same type.`}
	NodeName = Promise{Kind: API, Where: discovery + "Endpoint", NoPath: follows, Since: first,
		Quote: `This can be used to determine endpoints local to a Node.`}
	ServiceCIDR = Promise{Kind: API, Where: "https://pkg.go.dev/k8s.io/api/networking/v1#ServiceCIDR", NoPath: ofNoService, Since: "1.33",
		Quote: `This range is used to allocate ClusterIPs to Service objects.`}
)
