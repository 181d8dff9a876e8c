// Package model predicts how many requests a rolling update loses under
// externalTrafficPolicy=Local, before it is run, from the settings of the load
// balancer, the dataplane and the workload.
//
// It integrates one equation, D = lambda * integral of phi(t) dt with
// phi = |UP and dead| / |UP| (1 if no server is UP), over the only things that
// are not known beforehand: the phases of the load balancer's checks, uniform
// over their interval and taken to be independent of each other (for one load
// balancer an average, see SingleReplica). The integration is a midpoint rule,
// so the same inputs give the same numbers.
package model

import "time"

// Semantics says what a dataplane does with terminating endpoints.
type Semantics string

const (
	Ignore   Semantics = "ignore"   // a terminating endpoint is removed at once
	Fallback Semantics = "fallback" // KEP-1669: serving, terminating endpoints are used when no ready one is local
)

// LB is how the load balancer checks its servers. HAProxy schedules a check one
// interval after the last one ended (configuration manual, "inter").
type LB struct {
	Interval time.Duration // I: between checks of a server that is UP
	Fast     time.Duration // between checks once one has failed ("fastinter"); 0: Interval
	Down     time.Duration // between checks of a server that is DOWN ("downinter"); 0: Interval
	Fall     int           // F: failed checks until DOWN
	Rise     int           // R: good checks until UP
	Check    time.Duration // c: duration of one check
	Random   bool          // servers picked at random; false: round robin
}

// Inputs describe one rollout.
type Inputs struct {
	Rate      float64 // lambda, new connections per second
	LB        LB
	Semantics Semantics

	Propagation time.Duration // d: deletion (or readiness) -> rules and health check port changed
	Kubelet     time.Duration // d_k: deletion -> preStop hook or SIGTERM
	PreStop     time.Duration // S
	Delay       time.Duration // A: the app goes on serving this long after SIGTERM
	Grace       time.Duration // G
	MinReady    time.Duration // m: new pod ready -> old pod deleted, without the controllers' own latency
	Controller  time.Duration // latency of the Deployment's controllers, added to MinReady

	// UnreadyAfter is SIGTERM -> the kubelet has noticed, for a workload that
	// fails its readiness on SIGTERM; 0: readiness is kept. The dataplane hears
	// of it Propagation later. It defeats Fallback.
	UnreadyAfter time.Duration

	// Slack widens the bounds that no phase can exceed, for what the inputs do
	// not know of this host. It does not widen the deviation.
	Slack time.Duration
}

// Serves is X: how long after its deletion the old pod accepts connections.
func (in Inputs) Serves() time.Duration { return in.Kubelet + min(in.PreStop+in.Delay, in.Grace) }

// Band is an interval of counts.
type Band struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Width is High - Low.
func (b Band) Width() float64 { return b.High - b.Low }

// Contains reports whether a count lies in the band.
func (b Band) Contains(n float64) bool { return b.Low <= n && n <= b.High }

// Prediction is the expected loss of a number of rollouts together.
type Prediction struct {
	Rollouts int     `json:"rollouts"`
	Mean     float64 `json:"mean"`
	Var      float64 `json:"var"`
	Min      float64 `json:"min"`     // no phase loses less
	Max      float64 `json:"max"`     // no phase loses more
	Band95   Band    `json:"band95"`  // mean +- 1.960 deviations, or quantiles of a skewed sum, cut to Min and Max
	Band999  Band    `json:"band999"` // mean +- 3.291 deviations, or quantiles of a skewed sum, cut to Min and Max
	// SafeDelay is the shortest shutdown delay (preStop plus the app's own) in
	// seconds with which fallback loses nothing whatever the phases.
	SafeDelay float64 `json:"safeDelay"`
	Slack     float64 `json:"slack"` // by which Min and Max were widened, counts per rollout
	Note      string  `json:"note,omitempty"`
}
