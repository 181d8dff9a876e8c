// Package verdict says what the records of a run mean. It is pure: it does no
// I/O, reads no clock, keeps no state; the same records give the same verdict.
//
// The path: Classify names the outcome of one attempt at a given client
// timeout; Judge joins the attempts of one rollout with the load balancer's log
// and with the observed states, and returns counts, windows, causes, the loss
// that the observed states explain (Reconstruction), and whether the harness
// itself may be believed (Valid).
//
// Time in a Rollout is float64 seconds after the rollout's origin, its first transition: the
// deletion of the old pod, where nothing else is said. Durations are float64 seconds as well.
package verdict

import (
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// Class is the outcome of one attempt, as the client saw it.
type Class string

// Successes. The slow ones are successes that the client noticed.
const (
	OK                Class = "ok"
	OKFromTerminating Class = "ok_from_terminating" // answered by a pod that had received SIGTERM
	OKSlowConnect     Class = "ok_slow_connect"     // handshake took SlowAfter or longer: a resent SYN
	OKRetrans         Class = "ok_retrans"          // complete answer after SlowAfter or longer, and the client's socket had resent something
	OKSlow            Class = "ok_slow"             // complete answer after SlowAfter or longer: the LB's own dial was slow
)

// Losses.
const (
	DialRefused     Class = "dial_refused"
	DialReset       Class = "dial_reset"
	DialTimeout     Class = "dial_timeout"
	DialICMP        Class = "dial_icmp" // host, net or protocol unreachable, administratively prohibited
	EOFBeforeResp   Class = "eof_before_resp"
	ResetBeforeResp Class = "reset_before_resp"
	ResetMidBody    Class = "reset_mid_body"
	ShortBody       Class = "short_body" // closed in the middle of the answer
	RespTimeout     Class = "resp_timeout"
	WriteEPIPE      Class = "write_epipe"
	HTTP4xx         Class = "http_4xx"
	HTTP5xxApp      Class = "http_5xx_app"
	HTTP5xxLB       Class = "http_5xx_lb"    // a proxy's own error page: 502, 503 or 504 that no pod signed
	WrongBackend    Class = "wrong_backend"  // a complete answer from another node than the LB's target, under eTP=Local
	WrongWorkload   Class = "wrong_workload" // a complete answer from a pod that is none of the workload's: another Service's
	BadBody         Class = "bad_body"       // not HTTP, not 200, or not the workload's answer to this request
	Unclassified    Class = "unclassified"   // a failure this table does not know; a loss until it is explained
)

// Failures of the harness: neither success nor loss.
const (
	NotSent   Class = "not_sent"
	DialLocal Class = "dial_local" // this host had no port, descriptor or permission
)

// SlowAfter is TCP_RTO_MIN of Linux: no success without a retransmission, a
// redial or a stalled host takes longer on one host's bridges.
const SlowAfter = 200 * time.Millisecond

// Success reports whether the client got its answer, slow or not.
func (c Class) Success() bool { return c == OK || c == OKFromTerminating || c.Slow() }

// Slow reports a success that took noticeably long.
func (c Class) Slow() bool { return c == OKSlowConnect || c == OKRetrans || c == OKSlow }

// Harness reports an attempt that says nothing about the dataplane.
func (c Class) Harness() bool { return c == NotSent || c == DialLocal }

// Lost is the headline: neither a success nor the harness's own failure.
func (c Class) Lost() bool { return !c.Success() && !c.Harness() }

// Cause is who has to look after a loss or a slow answer. The first that matches is taken,
// in this order (cause.go).
type Cause string

const (
	CauseHarness     Cause = "harness"           // the harness's host: the control stream failed or was slow at that moment too
	CauseCheckFailed Cause = "check-failed"      // the LB had no server UP, because a node whose pod was ready did not answer its health check with 200
	CauseNoServer    Cause = "lb-no-server"      // the LB had no server UP
	CauseLBRefused   Cause = "lb-refused"        // the LB's own stack refused, reset or rejected the client's connection
	CauseLBSilent    Cause = "lb-silent"         // the LB did not answer the client's SYN, or took the connection up late
	CauseLBReset     Cause = "lb-reset"          // a connection was reset between the client and the LB
	CauseMisrouted   Cause = "node-misrouted"    // the node gave the connection to a pod that is not a local one of the Service
	CauseStale       Cause = "node-stale"        // the node sent to a pod that had been deleted, and that it could not hear of: it was kept from the API
	CauseRemembered  Cause = "node-remembered"   // the node's connection tracking sent it after an earlier connection from the same port that nobody had answered
	CauseLagPodAlive Cause = "check-lag-alive"   // LB still sent to a node that answered its health check with 503 and did not forward, though its pod lived: a dataplane without fallback
	CauseLagPodGone  Cause = "check-lag-gone"    // the same, the pod was gone: the shutdown delay is shorter than the LB's detection
	CauseLagUnready  Cause = "check-lag-unready" // the same, the pod lived but had turned unready: fallback may not use it
	CauseNodeDrop    Cause = "node-drop"         // packets reached the node and went no further
	CauseNodeReject  Cause = "node-reject"       // the node refused the connection: RST or ICMP of its own
	CauseNodeReset   Cause = "node-reset"        // the node reset a connection that was open
	CausePodDrop     Cause = "pod-drop"          // packets reached the pod, which answered none of them
	CausePodReject   Cause = "pod-reject"        // the pod refused the connection
	CausePodReset    Cause = "pod-reset"         // the pod reset a connection that was open
	CausePod         Cause = "pod"               // the workload answered, and not what was asked for; or it hung up, or took its time
	CauseSrvSilent   Cause = "server-silent"     // nothing came from behind the LB: whether the node or the pod kept still is not known
	CauseSrvRefused  Cause = "server-refused"    // refused behind the LB: whether by the node or the pod is not known
	CauseSrvReset    Cause = "server-reset"      // reset behind the LB after it was open: whether by the node or the pod is not known
	CauseUnknown     Cause = "unknown"           // no record explains it
)

// Causes are all there are, in the order of the table.
func Causes() []Cause {
	return []Cause{
		CauseHarness, CauseCheckFailed, CauseNoServer, CauseLBRefused, CauseLBSilent, CauseLBReset, CauseMisrouted, CauseStale,
		CauseRemembered, CauseLagPodAlive, CauseLagPodGone, CauseLagUnready, CauseNodeDrop, CauseNodeReject, CauseNodeReset, CausePodDrop,
		CausePodReject, CausePodReset, CausePod, CauseSrvSilent, CauseSrvRefused, CauseSrvReset, CauseUnknown,
	}
}

// Hop is where on its way a request met its end.
type Hop string

const (
	HopHarness  Hop = "harness"
	HopBalancer Hop = "balancer"
	HopNode     Hop = "node"
	HopPod      Hop = "pod"
	HopServer   Hop = "node or pod"
	HopUnknown  Hop = ""
)

// Hop is the cause's.
func (c Cause) Hop() Hop {
	switch c {
	case CauseHarness:
		return HopHarness
	case CauseNoServer, CauseLBRefused, CauseLBSilent, CauseLBReset:
		return HopBalancer
	case CauseCheckFailed, CauseMisrouted, CauseRemembered, CauseStale, CauseLagPodAlive, CauseLagPodGone, CauseLagUnready, CauseNodeDrop, CauseNodeReject, CauseNodeReset:
		return HopNode
	case CausePodDrop, CausePodReject, CausePodReset, CausePod:
		return HopPod
	case CauseSrvSilent, CauseSrvRefused, CauseSrvReset:
		return HopServer
	}
	return HopUnknown
}

// Settings are the circumstances of a rollout that records do not carry.
type Settings struct {
	Rollout  int            `json:"rollout"`           // number of the rollout, from 1
	Rate     float64        `json:"rate"`              // planned attempts per second
	Timeout  time.Duration  `json:"timeout"`           // the client's patience T_o: an attempt that took longer is lost
	Deadline time.Duration  `json:"deadline"`          // hard deadline of the probe; what exceeds it is censored
	Nodes    []string       `json:"nodes"`             // nodes the LB may send to
	LB       string         `json:"lb,omitempty"`      // namespace/name of the Service: records of others are ignored, and without its own the rollout is not valid; empty: no record is ignored, none is demanded
	Unseen   bool           `json:"unseen,omitempty"`  // a load balancer of which nothing is known stands in between
	Local    bool           `json:"local,omitempty"`   // eTP=Local: an answer from a node other than the LB's target is wrong_backend
	Cluster  bool           `json:"cluster,omitempty"` // eTP=Cluster: a node sends on to pods of other nodes, so that neither its packets nor a poll of its port tell of a request's way
	Connect  time.Duration  `json:"connect,omitempty"` // LB: timeout of one dial to a server
	Retries  int            `json:"retries,omitempty"` // LB: redials of the same server, 1 s apart
	Rise     time.Duration  `json:"rise,omitempty"`    // LB: within that time it holds a server UP whose checks succeed; 0: not known
	SYN      SYNs           `json:"syn,omitzero"`      // how the LB's kernel resends a SYN
	Starts   timeline.Start `json:"starts,omitzero"`   // what begins a transition; zero: the deletion of a pod
	Origin   int64          `json:"origin,omitempty"`  // t=0, when events hold none that begins a transition; 0: the first attempt
	But      Exceptions     `json:"but,omitzero"`      // what of the losses is the scenario's own doing
	Family   record.Family  `json:"family,omitempty"`  // states and connections of the other family are ignored; empty: there is one
	Ports    Ports          `json:"ports,omitzero"`    // of the Service, by which packets are told
	Limits   Limits         `json:"limits,omitzero"`   // zero: DefaultLimits
}

// Exceptions say what is the scenario's own doing: losses and slow answers for these causes that were
// under way between a transition and the act "settled" that follows it. What a node's connection
// tracking remembers (CauseRemembered) it does for longer.
type Exceptions struct {
	Causes []Cause       `json:"causes,omitempty"`
	Within time.Duration `json:"within,omitempty"` // of the transition at most; 0: no bound but that act
}

// Excepted are counts of what is the scenario's own doing.
type Excepted struct {
	Lost      int `json:"lost,omitempty"`
	LostSound int `json:"lostSound,omitempty"`
	SlowSound int `json:"slowSound,omitempty"`

	Causes map[Cause]int `json:"causes,omitempty"` // of Lost
}

// IsZero is for encoding/json.
func (e Excepted) IsZero() bool { return e.Lost == 0 && e.LostSound == 0 && e.SlowSound == 0 }

// Ports are those of a Service: on the nodes, and of its pods.
type Ports struct {
	Node   uint16 `json:"node"`
	Pod    uint16 `json:"pod"`
	Health uint16 `json:"health,omitempty"` // spec.healthCheckNodePort
}

// SYNs is how a kernel resends the SYN of a connection that nobody answers
// (ip-sysctl.rst). The zero value is Linux from 6.5 on as it comes: 4 and 6.
type SYNs struct {
	Linear  int `json:"linear"`  // tcp_syn_linear_timeouts: so many waits of 1 s, before each is twice the last; none before 6.5
	Retries int `json:"retries"` // tcp_syn_retries: SYNs after the first
}

// Limits are what the harness demands of itself and of the reconstruction.
//
// Lateness is judged by its 99th percentile: a harness that runs late as a rule
// sends at another rate than it says, and its windows are not where they seem.
// A single late attempt does neither; above LateMax it is worth a warning, for
// it shows a host that stalled for a moment.
type Limits struct {
	LateP99      time.Duration `json:"lateP99"`      // 99th percentile of an attempt's start after its planned time: above it not valid
	LateMax      time.Duration `json:"lateMax"`      // the latest single attempt: above it a warning, no more
	ResidualAbs  float64       `json:"residualAbs"`  // Reconstruction.Unexplained at most the larger of this
	ResidualPart float64       `json:"residualPart"` // and this part of what was measured as lost or slow
	Samples      int           `json:"samples"`      // successes kept in Series
}

// DefaultLimits are the project's own.
func DefaultLimits() Limits {
	return Limits{
		LateP99: 10 * time.Millisecond, LateMax: 100 * time.Millisecond,
		ResidualAbs: 3, ResidualPart: 0.03, Samples: 400,
	}
}

// Input is everything recorded of one rollout, for one of its streams.
type Input struct {
	Stream   record.Stream
	Attempts []record.Attempt // of that stream
	Control  []record.Attempt // of stream control
	Conns    []record.Conn
	Events   []record.Event
	Packets  []record.Packet
	Settings Settings
}

// Rollout is the verdict on one rollout.
type Rollout struct {
	Number   int      `json:"number"`
	Valid    bool     `json:"valid"`              // the harness may be believed; an invalid rollout is shown and not counted
	Reasons  []string `json:"reasons,omitempty"`  // why it is not valid
	Warnings []string `json:"warnings,omitempty"` // odd, not disqualifying

	Sent            int `json:"sent"` // attempts that say something about the dataplane
	Lost            int `json:"lost"`
	Slow            int `json:"slow"`
	LostSound       int `json:"lostSound"`       // of Lost: those at whose moment the harness was sound, which count though the rollout be invalid
	SlowSound       int `json:"slowSound"`       // of Slow: those at sound moments that may be a dataplane's doing: at the node, at node or pod, not known where
	FromTerminating int `json:"fromTerminating"` // successes answered by a pod after its SIGTERM, slow or not

	Classes map[Class]int `json:"classes"`          // every attempt, by class
	Causes  map[Cause]int `json:"causes,omitempty"` // every loss, by cause

	SlowCauses map[Cause]int `json:"slowCauses,omitempty"` // every slow answer, by cause

	// Excepted is what of Lost, LostSound and SlowSound is the scenario's own doing (Settings.But).
	Excepted Excepted `json:"excepted,omitzero"`

	Transitions []Transition `json:"transitions,omitempty"` // in order; the first is at 0

	NodeWindows   []Window `json:"nodeWindows,omitempty"` // per LB target node, bridged
	Outages       []Window `json:"outages,omitempty"`     // runs of two and more without a prompt answer between them
	LongestWindow float64  `json:"longestWindow"`         // inner, over NodeWindows
	LongestOutage float64  `json:"longestOutage"`         // inner, over all runs

	Latency        Quantiles       `json:"latency"` // of successes, start to end
	Harness        Harness         `json:"harness"`
	Reconstruction Reconstruction  `json:"reconstruction"`
	Second         *Reconstruction `json:"second,omitempty"` // the same from whole requests of the balancer's own address; nil: there were none
	Sensitivity    []AtTimeout     `json:"sensitivity"`
	Observed       Observed        `json:"observed"`
	Series         Series          `json:"series"`
}

// Window is a stretch of losses and slow answers on planned times. Inner is from the first
// to the last of these; outer is (last prompt answer before, first prompt answer after),
// open where the recording ends (then equal to inner at that side). Slow answers that the
// harness's own host explains are none.
type Window struct {
	Node       string        `json:"node,omitempty"` // LB target; empty: overall, or not known
	Start      float64       `json:"start"`
	End        float64       `json:"end"`
	OuterStart float64       `json:"outerStart"`
	OuterEnd   float64       `json:"outerEnd"`
	Lost       int           `json:"lost"`
	Slow       int           `json:"slow,omitempty"`
	Of         int           `json:"of"` // attempts of this node in the inner window
	Classes    map[Class]int `json:"classes"`
	Causes     map[Cause]int `json:"causes,omitempty"` // of Lost and Slow
}

// Inner is the length of the inner window in seconds.
func (w Window) Inner() float64 { return w.End - w.Start }

// Outer is the length of the outer window in seconds.
func (w Window) Outer() float64 { return w.OuterEnd - w.OuterStart }

// Transition is one disturbance of a rollout, and what was lost from it until the next; of the first
// also what was under way.
type Transition struct {
	At    float64     `json:"at"`
	Kind  record.Kind `json:"kind"`
	State string      `json:"state"`
	Node  string      `json:"node,omitempty"`
	Pod   string      `json:"pod,omitempty"`
	Lost  int         `json:"lost"`
	Slow  int         `json:"slow"`
	// Outage is the longest time without a prompt answer that was not over before it.
	Outage float64 `json:"outage"`
	// Stale is, of a pod that was deleted under eTP=Cluster, how long after that each node still
	// gave requests to it: as its answers tell, and losses by node-stale.
	Stale map[string]float64 `json:"stale,omitempty"`
}

// Quantiles of a set of durations, in seconds.
type Quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Harness is what the run says about itself.
type Harness struct {
	Late          Quantiles `json:"late"` // start after planned time
	NotSent       int       `json:"notSent"`
	Local         int       `json:"local"`          // attempts that this host could not send
	Missing       int       `json:"missing"`        // planned attempts without a record
	Twice         int       `json:"twice"`          // planned attempts with more than one record
	Full          int       `json:"full,omitempty"` // connections at whose end the load balancer took no more
	ControlSent   int       `json:"controlSent"`
	ControlFailed int       `json:"controlFailed"`
	ControlSlow   int       `json:"controlSlow"` // answered after SlowAfter or longer
	Connected     int       `json:"connected"`   // attempts that connected: the LB must have logged them
	Joined        int       `json:"joined"`      // attempts found in the LB's log
}

// Reconstruction is the loss that the observed states explain: the sum over
// the attempts of phi(start) = |UP and dead| / |UP|, 1 if no server is UP.
//
// It is held against the measurement node by node and second by second, lost and slow each,
// so that what is missing here does not make up for what is too much there. A state that
// was polled is known to the distance of two polls: within that, either is right.
//
// What it cannot see: losses after the handshake and losses of one source (a state is a
// poll's handshake), what is shorter than two polls, an application that does not answer
// though its kernel does, and the way from the client to the balancer. The second observation
// (Rollout.Second) sees the first two and the last but one.
type Reconstruction struct {
	Possible    bool    `json:"possible"` // the events hold LB and node states
	Lost        float64 `json:"lost"`
	NoServer    float64 `json:"noServer"`    // part of Lost: no server was UP
	DeadNode    float64 `json:"deadNode"`    // part of Lost: an UP server did not forward
	Slow        float64 `json:"slow"`        // attempts a redial or resent SYN rescued
	Residual    float64 `json:"residual"`    // measured loss minus reconstructed, in all
	Unexplained float64 `json:"unexplained"` // sum of the absolute differences, lost and slow, beyond what polls leave open
	Within      bool    `json:"within"`      // Unexplained is within Limits
}

// AtTimeout is the outcome had the client waited for Timeout seconds. Censored
// attempts were given up by the probe before Timeout; they count as lost.
type AtTimeout struct {
	Timeout  float64 `json:"timeout"`
	Lost     int     `json:"lost"`
	Slow     int     `json:"slow"`
	Censored int     `json:"censored"`
}

// Observed are the model's inputs as this rollout's events show them, in
// seconds; nil where the events do not show it.
type Observed struct {
	OldNode string `json:"oldNode,omitempty"`
	NewNode string `json:"newNode,omitempty"`

	Ready       *float64 `json:"ready,omitempty"`       // new pod ready (negative: before the deletion)
	Slice       *float64 `json:"slice,omitempty"`       // deletion -> old endpoint no longer ready in its slice (d_e)
	HCNPDown    *float64 `json:"hcnpDown,omitempty"`    // deletion -> old node's health check port no longer 200 (d)
	OldDead     *float64 `json:"oldDead,omitempty"`     // deletion -> old node no longer forwards
	Gone        *float64 `json:"gone,omitempty"`        // deletion -> old pod object gone
	LBDown      *float64 `json:"lbDown,omitempty"`      // deletion -> old node DOWN at the LB
	NewForwards *float64 `json:"newForwards,omitempty"` // new node forwards
	HCNPUp      *float64 `json:"hcnpUp,omitempty"`      // new node's health check port 200
	LBUp        *float64 `json:"lbUp,omitempty"`        // new node UP at the LB

	// Less a constant each, these are the phases of the two servers' checks:
	// U = L - (F-1) I_f - c and U' = L_up - (R-1) I_f - c. Side by side over the
	// rollouts they show whether the phases were independent (see package model).
	Removal   *float64 `json:"removal,omitempty"`   // L: HCNPDown -> LBDown
	Admission *float64 `json:"admission,omitempty"` // L_up: HCNPUp -> LBUp
	SafeDelay *float64 `json:"safeDelay,omitempty"` // how long the old pod would have had to serve after its deletion for no loss in this rollout
}

// Series is what a drawing needs: all losses, a thinned sample of successes, counts of all, and
// the changes of state.
type Series struct {
	From    float64  `json:"from"`
	To      float64  `json:"to"`
	Points  []Point  `json:"points"`
	Changes []Change `json:"changes"`
	Counts  []Bin    `json:"counts,omitempty"` // of all attempts, by BinWidth and node; bins without any are left out
}

// BinWidth is that of Series.Counts, in seconds.
const BinWidth = 0.1

// Bin is what became of the attempts that were planned in [T, T+BinWidth) and went to one node.
type Bin struct {
	T           float64 `json:"t"`
	Node        string  `json:"node,omitempty"` // LB target, or the answering node
	Answered    int     `json:"answered,omitempty"`
	Terminating int     `json:"terminating,omitempty"` // answered by a terminating pod
	Slow        int     `json:"slow,omitempty"`
	Lost        int     `json:"lost,omitempty"`
}

// Point is one attempt at its planned time.
type Point struct {
	T     float64 `json:"t"`
	Class Class   `json:"class"`
	Node  string  `json:"node,omitempty"` // LB target, or the answering node
	Took  float64 `json:"took"`
	Pod   string  `json:"pod,omitempty"`
	Cause Cause   `json:"cause,omitempty"` // of a loss or a slow answer
}

// Change is one observed change of state.
type Change struct {
	T     float64     `json:"t"`
	Kind  record.Kind `json:"kind"`
	State string      `json:"state"`
	Node  string      `json:"node,omitempty"`
	Pod   string      `json:"pod,omitempty"`
}
