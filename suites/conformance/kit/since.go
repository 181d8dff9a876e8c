package kit

// The first versions of Kubernetes that have, by default, what objects of behaviours need.
const (
	SinceClass          = "1.22" // loadBalancerClass: LoadBalanced
	SinceInternalPolicy = "1.22" // internalTrafficPolicy: InternalLocal
)
