package kit

import "time"

// Timeouts are the waits for what is no matter of the dataplane: how late that may follow
// is Limit.
type Timeouts struct {
	Probes   time.Duration // for the cluster to run the probes
	Balancer time.Duration // for a load balancer to have an address
	Range    time.Duration // for the control plane to give ClusterIPs of a new range
	Link     time.Duration // for a new link to carry packets
}

// DefaultTimeouts are long for a quiet host.
func DefaultTimeouts() Timeouts {
	return Timeouts{Probes: 90 * time.Second, Balancer: 20 * time.Second, Range: 30 * time.Second, Link: 5 * time.Second}
}
