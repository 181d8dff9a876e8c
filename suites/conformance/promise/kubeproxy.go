package promise

const (
	proxier = "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/"
	e2e     = "https://github.com/kubernetes/kubernetes/blob/v1.36.3/test/e2e/network/service.go"
)

// What only kube-proxy does, and what only tests of upstream's want.
var ( // const
	RefusedWithoutEndpoints = Promise{Kind: Test, Where: e2e, Over: nobody, Since: first,
		Summary: `a Service of which no endpoint exists refuses connections (“should be rejected when no endpoints exist”); no document says whether they are refused or dropped.`}
	LocalRefusedWithoutAny = Promise{Kind: KubeProxy, Where: proxier + "topology.go", Over: nobodyLocal, Since: first,
		Summary: `under policy Local, too, a Service without an endpoint on any node refuses; the API says dropped, the page about the internal policy, that it is as without endpoints.`}
	ClusterIPSource = Promise{Kind: KubeProxy, Where: docs + "tutorials/services/source-ip/#source-ip-for-services-with-type-clusterip", NoPath: ofSources, Since: first,
		Quote: `Packets sent to ClusterIP from within the cluster are never source NAT'd if you're running kube-proxy in iptables mode`}
	Masquerade = Promise{Kind: KubeProxy, Where: docs + "tutorials/services/source-ip/#source-ip-for-services-with-type-nodeport", NoPath: ofSources, Since: first,
		Summary: `under policy Cluster the node replaces the source by its own address; other dataplanes document that they keep it (direct return), and the API promises only that traffic is routed.`}
	ShortCircuit = Promise{Kind: KubeProxy, Where: keps + "2450-Remove-knowledge-of-pod-cluster-CIDR-from-iptables-rules", NoPath: ofOneWay, Since: first,
		Summary: `what a node and its pods send to a node port of the node gets policy Cluster; the API says that such clients may need to take the policy into account, and upstream's tests ask for it no more (kubernetes/kubernetes#123622).`}
	LocalForOtherNodes = Promise{Kind: KubeProxy, Where: proxier + "nftables/proxier.go", NoPath: ofOneWay, Since: "1.26",
		Summary: `what a node sends to a node port of another one is held to policy Local there; others let every client in the cluster use all endpoints, which the API allows by telling such clients that they may need to take the policy into account.`}
	AffinityShared = Promise{Kind: KubeProxy, Where: proxier + "nftables/proxier.go", NoPath: ofRecords, Since: first,
		Summary: `one record for the ClusterIP, node port and load balancer address of a port; others keep one a frontend.`}
	AffinityPerPort = Promise{Kind: KubeProxy, Where: proxier + "nftables/proxier.go", NoPath: ofRecords, Since: first,
		Summary: `one record a port of a Service; the documentation speaks of the client and the Service.`}
	AffinitySliding = Promise{Kind: KubeProxy, Where: proxier + "nftables/proxier.go", NoPath: ofTime, Since: first,
		Summary: `each connection starts the timeout anew; the documentation calls it a maximum, and others count it from the first connection.`}
	AffinityUnusable = Promise{Kind: KubeProxy, Where: proxier + "nftables/proxier.go", NoPath: ofRecords, Since: "1.22",
		Summary: `a record counts only for those endpoints that the policy allows.`}
	ProxyHealth = Promise{Kind: KubeProxy, Where: keps + "3836-kube-proxy-improved-ingress-connectivity-reliability", NoPath: ofHealth, Since: "1.30",
		Summary: `kube-proxy's /healthz fails while its node is being deleted, /livez does not, and nothing else of the node counts.`}
	HealthPortForm = Promise{Kind: KubeProxy, Where: proxier + "healthcheck/service_health.go", NoPath: ofHealth, Since: "1.27",
		Summary: `what else than its status is true of a health check node port: the same at every path, JSON, a weight, not before the rules are there, and closed with its Service.`}
	UndefinedPortsRefused = Promise{Kind: KubeProxy, Where: keps + "3866-nftables-proxy", NoPath: ofNoService, Since: "1.31",
		Summary: `in mode nftables ports of a ClusterIP that the Service does not have are refused, and addresses that no Service has are dropped.`}
	LoopbackNodePorts = Promise{Kind: KubeProxy, Where: docs + "reference/networking/virtual-ips/#proxy-mode-iptables", NoPath: ofOneWay, Since: first,
		Summary: `in mode iptables node ports are served at 127.0.0.1 as well, in the other modes not.`}
	OtherProxy = Promise{Kind: KubeProxy, Where: keps + "2447-Make-kube-proxy-service-abstraction-optional", NoPath: ofFields, Since: first,
		Quote: `It is optional for other service proxy implementations (besides kube-proxy) to implement this feature. They may ignore this value and still remain conformant with kubernetes services.`}
	CleanUp = Promise{Kind: KubeProxy, Where: docs + "reference/networking/virtual-ips/", NoPath: ofAgents, Since: first,
		Quote: `Although the kube-proxy executable supports a cleanup function, this function is not an official feature and thus is only available to use as-is.`}
	WithoutAgents = Promise{Kind: KubeProxy, Where: keps + "2448-Remove-kube-proxy-automatic-clean-up-logic", NoPath: ofAgents, Since: first,
		Summary: `kube-proxy removes nothing when it ends, so that what it wrote goes on without it and over its restart.`}
	RulesWatched = Promise{Kind: KubeProxy, Where: docs + "reference/networking/virtual-ips/#proxy-mode-iptables", NoPath: ofAgents, Since: first,
		Summary: `in mode iptables, how soon it notices that somebody else has interfered with its rules is a parameter (syncPeriod).`}
	FlowsCleaned = Promise{Kind: KubeProxy, Where: proxier + "conntrack/cleanup.go", NoPath: ofFlows, Since: "1.33",
		Summary: `of the flows of UDP that the kernel tracks, those whose endpoint is none any more are forgotten, and no others.`}
	ConnectionsLeft = Promise{Kind: KubeProxy, Where: proxier + "conntrack/cleanup.go", NoPath: ofFlows, Since: first,
		Summary: `connections of TCP that the kernel tracks are left alone, whatever becomes of the endpoint or the Service.`}
	ErrorsTranslated = Promise{Kind: KubeProxy, Where: proxier + "nftables/README.md", NoPath: ofErrors, Since: first,
		Summary: `what routers and endpoints say by ICMP of a packet whose addresses were translated reaches its sender as of the packet that it sent: the kernel's NAT does so for kube-proxy (RFC 5508), and no document of Kubernetes speaks of ICMP.`}
	RangesDrop = Promise{Kind: KubeProxy, Where: proxier + "nftables/proxier.go", NoPath: ofSources, Since: first,
		Summary: `clients outside the source ranges are dropped and not refused, white space around a range is no part of it, and processes on nodes are held to them.`}
	RangesOnPods = Promise{Kind: KubeProxy, Where: proxier + "nftables/proxier.go", NoPath: ofSources, Since: first,
		Summary: `pods are held to the source ranges too; the API speaks of traffic through the load balancer of the cloud provider, and others leave out what comes from inside.`}
	WatchesItsNode = Promise{Kind: KubeProxy, Where: proxier + "config/config.go", NoPath: follows, Since: "1.34",
		Summary: `a change of the labels of its own Node is followed.`}
	LargeDatagrams = Promise{Kind: Test, Where: "https://github.com/kubernetes/kubernetes/blob/v1.36.3/test/e2e/network/networking.go", NoPath: ofOneWay, Since: first,
		Summary: `datagrams that take several packets pass through a Service (“should be able to handle large requests: udp”).`}
)
