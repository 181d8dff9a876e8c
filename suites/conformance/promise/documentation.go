package promise

const docs = "https://kubernetes.io/docs/"

// What the documentation says, word for word but for its markup.
var ( // const
	ClientsUnaware = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#services-in-kubernetes", NoPath: follows, Since: first,
		Quote: `While the actual Pods that compose the backend set may change, the frontend clients should not need to be aware of that, nor should they need to keep track of the set of backends themselves.`}
	Synchronized = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/", NoPath: follows, Since: first,
		Quote: `A control loop ensures that the rules on each node are reliably synchronized with the Service and EndpointSlice state as indicated by the API server.`}
	Transported = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#ip-address-assignment-to-services", Over: atClusterIP, Since: first,
		Quote: `When clients connect to the VIP, their traffic is automatically transported to an appropriate endpoint.`}
	ReadyEndpoints = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#external-traffic-policy", Over: readyOutside, Since: first,
		Quote: `Set the field to Cluster to route external traffic to all ready endpoints and Local to only route to ready node-local endpoints.`}
	ReadyEndpointsInside = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#internal-traffic-policy", Over: readyInside, Since: first,
		Quote: `Set the field to Cluster to route internal traffic to all ready endpoints and Local to only route to ready node-local endpoints.`}
	EveryNode = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#type-nodeport", Over: atNodePorts, Since: first,
		Quote: `Every node in the cluster configures itself to listen on that assigned port and to forward traffic to one of the ready endpoints associated with that Service.`}
	NodesAddress = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#publishing-services-service-types", NoPath: elsewhere, Since: first,
		Quote: `Exposes the Service on each Node's IP at a static port (the NodePort).`}
	AnyNode = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#type-nodeport", Over: byAnyNode, Since: first,
		Quote: `You'll be able to contact the type: NodePort Service, from outside the cluster, by connecting to any node using the appropriate protocol (for example: TCP), and the appropriate port (as assigned to that Service).`}
	ExternalIPsRouted = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#external-ips", Over: atExternals, Since: first,
		Quote: `When network traffic arrives into the cluster, with the external IP (as destination IP) and the port matching that Service, rules and routes that Kubernetes has configured ensure that the traffic is routed to one of the endpoints for that Service.`}
	Affinity = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#session-affinity", Over: sticky, Since: first,
		Quote: `If you want to make sure that connections from a particular client are passed to the same Pod each time, you can select the session affinity based on the client's IP addresses`}
	AffinityAtMost = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#session-stickiness-timeout", NoPath: ofTime, Since: first,
		Quote: `You can also set the maximum session sticky time by setting .spec.sessionAffinityConfig.clientIP.timeoutSeconds appropriately for a Service.`}
	Hairpin = Promise{Kind: Documentation, Where: docs + "tasks/debug/debug-application/debug-service/#a-pod-fails-to-reach-itself-via-the-service-ip", Over: toItself, Since: first,
		Quote: `This might sound unlikely, but it does happen and it is supposed to work.`}
	TCP = Promise{Kind: Documentation, Where: docs + "reference/networking/service-protocols/#protocol-tcp", Over: byTCP, Since: first,
		Quote: `You can use TCP for any kind of Service, and it's the default network protocol.`}
	UDP = Promise{Kind: Documentation, Where: docs + "reference/networking/service-protocols/#protocol-udp", Over: byUDP, Since: first,
		Quote: `You can use UDP for most Services.`}
	SCTP = Promise{Kind: Documentation, Where: docs + "reference/networking/service-protocols/#protocol-sctp", Over: ofSCTP, Since: first, Optional: "sctp",
		Quote: `When using a network plugin that supports SCTP traffic, you can use SCTP for most Services.`}
	MultiPort = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#multi-port-services", NoPath: ofFields, Since: first,
		Quote: `Kubernetes lets you configure multiple port definitions on a Service object.`}
	EachProtocol = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#field-spec-ports", NoPath: ofFields, Since: first,
		Quote: `Each port definition can have the same protocol, or a different one.`}
	AnyTargetPort = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#defining-a-service", NoPath: elsewhere, Since: first,
		Quote: `A Service can map any incoming port to a targetPort.`}
	NamedPorts = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#field-spec-ports", Over: ownPorts, Since: first,
		Quote: `This works even if there is a mixture of Pods in the Service using a single configured name, with the same network protocol available via different port numbers.`}
	AnyBackend = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#services-without-selectors", Over: onHosts, Since: first,
		Quote: `without a selector, the Service can abstract other kinds of backends, including ones that run outside the cluster.`}
	NoSelector = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#service-no-selector-access", NoPath: elsewhere, Since: first,
		Quote: `Accessing a Service without a selector works the same as if it had a selector.`}
	NoProxyingOfExternalName = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#publishing-services-service-types", NoPath: ofNoService, Since: first,
		Quote: `No proxying of any kind is set up.`}
	Headless = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#headless-services", NoPath: ofNoService, Since: first,
		Quote: `there is no load balancing or proxying done by the platform for them.`}
	HeadlessLabel = Promise{Kind: Documentation, Where: docs + "reference/labels-annotations-taints/#servicekubernetesioheadless", NoPath: ofNoService, Since: first,
		Quote: `The control plane adds this label to an Endpoints object when the owning Service is headless.`}
	MixedProtocols = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#load-balancers-with-mixed-protocol-types", NoPath: ofFields, Since: "1.24",
		Quote: `allows the use of different protocols for LoadBalancer type of Services, when there is more than one port defined.`}
	NodePortsRemoved = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/service/#load-balancer-nodeport-allocation", NoPath: ofFields, Since: "1.22",
		Quote: `You must explicitly remove the nodePorts entry in every Service port to de-allocate those node ports.`}
	SourceTrusted = Promise{Kind: Documentation, Where: docs + "tutorials/services/source-ip/#source-ip-for-services-with-type-nodeport", Over: trusted, Since: first,
		Quote: `If there are no local endpoints, packets sent to the node are dropped, so you can rely on the correct source-ip`}
	DrainLocal = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#traffic-to-terminating-endpoints", Over: drained, Since: "1.26",
		Quote: `This forwarding behavior for terminating endpoints exists to allow NodePort and LoadBalancer Services to gracefully drain connections when using externalTrafficPolicy: Local.`}
	DrainHealth = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#traffic-to-terminating-endpoints", NoPath: ofHealth, Since: "1.26",
		Quote: `By the time the Pod completes termination, the external load balancer should have seen the node's health check failing and fully removed the node from the backend pool.`}
	HealthOfProxies = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#external-traffic-policy", NoPath: ofHealth, Since: "1.30", Optional: "proxy-healthz",
		Quote: `If you are using or implementing your own virtual IP implementation, that people can use instead of kube-proxy, you should set up a similar health checking port with logic that matches the kube-proxy implementation.`}
	ZoneWithoutEndpoints = Promise{Kind: Documentation, Where: docs + "reference/networking/virtual-ips/#traffic-distribution", NoPath: ofTopology, Since: "1.34",
		Quote: `If a client's zone does not have any available endpoints, traffic will be routed cluster-wide for that client.`}
	UniqueEndpoints = Promise{Kind: Documentation, Where: docs + "concepts/services-networking/endpoint-slices/#duplicate-endpoints", NoPath: follows, Since: first,
		Quote: `Clients of the EndpointSlice API must iterate through all the existing EndpointSlices associated to a Service and build a complete list of unique network endpoints.`}
	NamesOfNamespace = Promise{Kind: Documentation, Where: docs + "concepts/overview/working-with-objects/namespaces/", NoPath: follows, Since: first,
		Quote: `Names of resources need to be unique within a namespace, but not across namespaces.`}
	MoreAddresses = Promise{Kind: Documentation, Where: docs + "tasks/network/extend-service-ip-ranges/#extend-the-number-of-available-ips-for-services", NoPath: ofNoService, Since: "1.33",
		Quote: `With this new feature users only need to add a new ServiceCIDR to increase the number of available addresses.`}
)
