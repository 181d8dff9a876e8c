package promise

import "github.com/plumbline/plumbline/suites/conformance/cell"

// bySCTP excepts SCTP from what is promised of every protocol.
var bySCTP = cell.Exception{Of: []cell.Value{cell.SCTP}, // const
	Document: docs + "reference/networking/service-protocols/#protocol-sctp",
	Says:     "SCTP is for network plugins that support it: what is asked of it is another promise"}

// fromInside excepts what the policy for external traffic does not say of clients inside.
var fromInside = cell.Exception{Of: []cell.Value{cell.PodHere, cell.PodElsewhere, cell.Node}, // const
	Document: core + "ServiceSpec",
	Says:     "from within the cluster an external IP or a load balancer's has the semantics of Cluster, and clients at node ports may need to take the policy into account"}

// over is the space of cells with these values, for every protocol that all implementations
// have.
func over(of ...cell.Value) cell.Space {
	return cell.Space{Of: of, Except: []cell.Exception{bySCTP}}
}

// fromOutside is that of a promise about clients outside alone.
func fromOutside(of ...cell.Value) cell.Space {
	return cell.Space{Of: of, Except: []cell.Exception{bySCTP, fromInside}}
}

// The cells that promises hold over.
var ( // const
	atClusterIP  = over(cell.ClusterIP, cell.Cluster, cell.Ready, cell.SomeNotReady, cell.SomeTerminating)
	atNodePorts  = over(cell.NodePort, cell.NodePortElsewhere, cell.Cluster, cell.Ready, cell.SomeNotReady, cell.SomeTerminating)
	byAnyNode    = over(cell.NodePort, cell.NodePortElsewhere, cell.Cluster, cell.Ready, cell.SomeNotReady, cell.SomeTerminating, cell.Outside)
	atBalancers  = over(cell.LoadBalancer, cell.Cluster, cell.Ready, cell.SomeNotReady, cell.SomeTerminating)
	atExternals  = over(cell.ExternalIP, cell.Cluster, cell.Ready, cell.SomeNotReady, cell.SomeTerminating)
	evenly       = over(cell.ClusterIP, cell.NodePort, cell.NodePortElsewhere, cell.LoadBalancer, cell.ExternalIP, cell.Cluster, cell.Ready)
	localOutside = fromOutside(cell.NodePort, cell.LoadBalancer, cell.ExternalIP, cell.Local, cell.Ready, cell.SomeNotReady, cell.SomeTerminating)
	noneOutside  = fromOutside(cell.NodePortElsewhere, cell.LoadBalancer, cell.ExternalIP, cell.Local, cell.NoneHere)
	localInside  = over(cell.LoadBalancer, cell.ExternalIP, cell.Local, cell.Ready, cell.SomeNotReady, cell.SomeTerminating, cell.PodHere, cell.PodElsewhere, cell.Node)
	internal     = over(cell.ClusterIP, cell.Local, cell.Ready, cell.SomeNotReady, cell.SomeTerminating, cell.NoneHere)
	readyInside  = over(cell.ClusterIP, cell.Ready, cell.SomeNotReady, cell.SomeTerminating)
	readyOutside = fromOutside(cell.NodePort, cell.NodePortElsewhere, cell.LoadBalancer, cell.ExternalIP, cell.Ready, cell.SomeNotReady, cell.SomeTerminating)
	unready      = over(cell.SomeNotReady, cell.NoneUsable)
	sticky       = over(cell.Ready)
	byUDP        = cell.Space{Of: []cell.Value{cell.UDP, cell.Cluster, cell.Ready}}
	byTCP        = cell.Space{Of: []cell.Value{cell.TCP, cell.Cluster, cell.Ready}}
	ofSCTP       = cell.Space{Of: []cell.Value{cell.SCTP, cell.Cluster, cell.Ready}}
	restricted   = fromOutside(cell.LoadBalancer, cell.Ready)
	terminating  = over(cell.AllTerminating)
	someEnd      = over(cell.SomeTerminating, cell.Cluster)
	someEndLocal = cell.Space{Of: []cell.Value{cell.AllTerminating, cell.Local}, Except: []cell.Exception{bySCTP, {
		Of:       []cell.Value{cell.NodePort, cell.NodePortElsewhere, cell.LoadBalancer, cell.ExternalIP, cell.PodHere, cell.PodElsewhere, cell.Node},
		Document: fromInside.Document, Says: fromInside.Says,
	}}}
	drained     = fromOutside(cell.NodePort, cell.LoadBalancer, cell.Local, cell.AllTerminating)
	notServing  = over(cell.NoneUsable)
	onHosts     = over(cell.HostNetwork, cell.Ready)
	ownPorts    = over(cell.OtherPort, cell.Ready, cell.Cluster)
	toItself    = over(cell.PodHere, cell.Pod, cell.Ready, cell.Cluster)
	nobody      = over(cell.None, cell.Cluster)
	nobodyLocal = over(cell.None, cell.NoneUsable, cell.Local)
	trusted     = fromOutside(cell.NodePort, cell.NodePortElsewhere, cell.Local, cell.Ready, cell.NoneHere)
)

// Why promises are about the path of no packet.
const (
	follows     = "it is about what is followed of the API, whichever path is asked"
	ofFields    = "it is about a field of an object and what it makes of one, not about a path"
	ofHealth    = "it is about a port that says how a node is, which is no address of a Service"
	elsewhere   = "its paths are those of other promises, which have the cells: ClusterIP, NodePort, TCP, UDP, SCTP, NamedPorts, Ready and AllTerminating"
	ofBalancers = "it is about the load balancer that stands before the nodes, not about an address that they serve"
	ofTime      = "it is about how long something holds, which a cell does not have"
	ofFlows     = "it is about connections and flows that stand, and not about where new ones go"
	ofTopology  = "it is about hints and zones, which no dimension of a cell has"
	ofNoService = "it is about what no Service has an address or a port for, so that there is no endpoint"
	ofSources   = "it is about the source address that is seen or let through, which no dimension of a cell has"
	ofRecords   = "it is about which record of a client counts, beside the promise that there is one (Affinity)"
	ofAgents    = "it is about the agents and the rules of a dataplane, not about a path"
	ofErrors    = "it is about what is said of packets that did not arrive, whichever path they took"
	ofOneWay    = "it is about one way that kube-proxy alone has, or a size: behaviours of it ask that one"
)
