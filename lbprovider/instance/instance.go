// Package instance starts, stops and finds the HAProxy of one load balancer,
// at an address of its own. What HAProxy does is written by others into the
// load balancer's directory (Spec.Dir).
//
//	Docker   a container on a Docker network; Docker starts it anew if it ends
//	Netns    a process in a network namespace of its own, on a bridge
//	Host     a process in this network namespace, at a loopback address
//	Processes   what the last two share: start, find again, start anew, end
//
// Nothing is remembered that could not be found again: a container has labels, a
// process has its record, its pid file and its command line in its directory
// (see Processes). Limits: ending is at once, with every connection; there is no
// soft end. All methods are safe for concurrent use.
package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"time"
)

// NamePrefix begins the name of every load balancer.
const NamePrefix = "plumbline-lb-"

// NameBytes is how much of a hash ends it.
const NameBytes = 6

// Name is that of the load balancer of a Service with this UID.
func Name(cluster, uid string) string {
	h := sha256.Sum256([]byte(cluster + "/" + uid))
	return NamePrefix + hex.EncodeToString(h[:NameBytes])
}

// layout is that of the files in a load balancer's directory. One that runs with another is
// not what Start would make.
const layout = 2

// Spec is one load balancer to run.
type Spec struct {
	Name    string
	Service string // namespace/name
	UID     string // of the Service
	Dir     string // on this host; a container sees it as RunDir
	Addrs   []netip.Addr
	// Owner is the numeric "uid:gid" that HAProxy runs as. Its group reads Dir, in which
	// haproxy.OwnDir is its own.
	Owner string
}

// Instance is one load balancer that exists.
type Instance struct {
	Name    string
	Service string
	UID     string
	Addrs   []netip.Addr
	Running bool
	// Stopped: it ended and nobody but the provider will start it again (docker
	// kill or stop; a process that ended while plumb-lb was away). Neither
	// Running nor Stopped: it is restarting.
	Stopped bool
	digest  string
}

// Kind is what happened to a load balancer's HAProxy.
type Kind int

const (
	Started Kind = iota + 1
	Ended
	Removed // it may have been ended for long
)

// Event is something that happened to a load balancer's HAProxy.
type Event struct {
	Name    string
	Service string
	Kind    Kind
	At      time.Time // when it happened; an event may come late
	Detail  string    // how it ended
}
