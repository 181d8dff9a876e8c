// Package report renders a run's verdicts. A Summary is the source; it is
// written as summary.json, and junit.xml, report.md, report.html and the
// terminal table follow from it alone. Rendering is pure; Write does the I/O.
package report

import (
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/timeline"
	"github.com/plumbline/plumbline/suites/verdict"
	"github.com/plumbline/plumbline/suites/verdict/model"
)

// The version of summary.json. A field may be added; a change of meaning takes
// a new version. Reports of the version before are read as well (v1alpha1.go).
const (
	APIVersion = "plumbline.io/v1alpha2"
	Kind       = "DisruptionReport"
)

// Mode says what a row's dataplane does with terminating endpoints.
type Mode string

const (
	Fallback Mode = "fallback"
	Ignore   Mode = "ignore"
)

// Summary is a whole run: scenarios, each on the same rows.
type Summary struct {
	APIVersion  string      `json:"apiVersion"` // set by Write
	Kind        string      `json:"kind"`       // set by Write
	Started     time.Time   `json:"started"`
	Finished    time.Time   `json:"finished"`
	Environment Environment `json:"environment"`
	LB          LB          `json:"lb"`
	Scenarios   []Scenario  `json:"scenarios"`
	Command     string      `json:"command,omitempty"` // that does it again
	Conclusion  string      `json:"conclusion"`        // the run in a sentence; set by Write
	Error       string      `json:"error,omitempty"`   // the run ended early: why
	ExitCode    int         `json:"exitCode"`          // set by Write
}

// Scenario is one disturbance, with a row for each dataplane that met it.
type Scenario struct {
	Name      string         `json:"name"`
	Title     string         `json:"title,omitempty"` // what is done, a line for people
	Says      string         `json:"says,omitempty"`  // what good looks like, a sentence
	Source    []string       `json:"source,omitempty"`
	Settings  Settings       `json:"settings"`
	Starts    timeline.Start `json:"starts,omitzero"` // what begins a transition, and with the first the drawing's time; zero: the deletion of a pod
	Promises  []Promise      `json:"promises"`
	Model     Model          `json:"model,omitempty"`    // which says beforehand what is lost
	Latencies Latencies      `json:"latencies,omitzero"` // that the model takes for granted of this cluster
	Rows      []Row          `json:"rows"`
}

// Model names one of package model's.
type Model string

// SingleReplica is model.SingleReplica.
const SingleReplica Model = "single-replica"

// Promise is what a scenario holds rows to. One without Band is about losses and slow answers:
// none beyond the budget.
type Promise struct {
	Of   Whose           `json:"of"`
	But  []verdict.Cause `json:"but,omitempty"`  // what a transition loses for these is the scenario's own doing, and does not count (Rollout.Excepted)
	Band bool            `json:"band,omitempty"` // they lose what the model says, neither less nor more: this shows that the harness sees losses
}

// Whose promise it is.
type Whose string

const (
	OfFallback Whose = "fallback" // rows that claim to have KEP-1669 (Row.Judged)
	OfIgnore   Whose = "ignore"   // own rows that are told not to have it
	OfOwn      Whose = "own"      // the project's, and those that are judged like them
	OfEvery    Whose = "every"    // whichever dataplane it is
)

// Duration is text in a report.
type Duration = render.Duration

// Environment is where the run took place.
type Environment struct {
	Plumbline  string `json:"plumbline,omitempty"` // own version
	Commit     string `json:"commit,omitempty"`    // of Plumbline's source, as far as it is known
	OS         string `json:"os,omitempty"`
	Kernel     string `json:"kernel"`
	CPUs       int    `json:"cpus"`
	MemoryMiB  int    `json:"memoryMiB,omitempty"`
	UsedMiB    int    `json:"usedMiB,omitempty"` // of the host's memory, by the cluster: free before it came up less free with all of it up
	Cluster    string `json:"cluster,omitempty"` // kind, lab or existing
	Lacks      string `json:"lacks,omitempty"`   // what this run had less than another there, and why
	Kubernetes string `json:"kubernetes"`
	NodeImage  string `json:"nodeImage,omitempty"` // name@digest, where the nodes were made of one here
	Nodes      int    `json:"nodes,omitempty"`
	IPFamily   string `json:"ipFamily,omitempty"`

	ControlPlane string `json:"controlPlane,omitempty"` // of a lab: model or real (Kubernetes' own)
}

// LB is the load balancer's profile as it was configured.
type LB struct {
	Kind       string   `json:"kind"`              // e.g. "HAProxy, mode tcp, ipMode Proxy"
	Version    string   `json:"version,omitempty"` // of ours, as it says itself
	Profile    string   `json:"profile"`
	Path       string   `json:"path,omitempty"` // of the health check
	Interval   Duration `json:"interval"`
	Fast       Duration `json:"fast,omitempty"`
	Down       Duration `json:"down,omitempty"`
	Fall       int      `json:"fall"`
	Rise       int      `json:"rise"`
	Connect    Duration `json:"connect"`
	Client     Duration `json:"client,omitempty"`
	Server     Duration `json:"server,omitempty"`
	Retries    int      `json:"retries"`
	Redispatch bool     `json:"redispatch"`
	Balance    string   `json:"balance"`
}

// Settings are those of a scenario's rollouts.
type Settings struct {
	Rate     float64      `json:"rate"`
	Timeout  Duration     `json:"timeout"`
	Deadline Duration     `json:"deadline"`
	Delay    Duration     `json:"delay"` // the workload's shutdown delay
	PreStop  Duration     `json:"preStop,omitempty"`
	Grace    Duration     `json:"grace"`
	MinReady Duration     `json:"minReady,omitempty"`
	Hold     Duration     `json:"hold,omitempty"`     // how long a fault stays
	Replicas int          `json:"replicas,omitempty"` // of the workload; 0: one
	Recovery Duration     `json:"recovery,omitempty"` // of a transition: how long it may excuse losses
	Policy   string       `json:"policy,omitempty"`   // externalTrafficPolicy of its Service; empty: Local
	Unready  bool         `json:"unreadyOnSigterm,omitempty"`
	Seed     uint64       `json:"seed"`
	Rollouts int          `json:"rollouts"`           // wanted per row
	Pods     int          `json:"pods,omitempty"`     // that run beside the workload
	Services int          `json:"services,omitempty"` // beside the workload's
	Timeouts string       `json:"timeouts,omitempty"` // name=duration,...: waits for what is no matter of the dataplane
	Budget   int          `json:"budget"`             // lost requests a judged row may have in all; slow ones: SlowPart
	SYN      verdict.SYNs `json:"syn,omitzero"`       // how this kernel resends a SYN
}

// Latencies are how long a cluster takes between what the model knows of. Those that were measured
// in each rollout stand beside them (Rollout.Observed).
type Latencies struct {
	Propagation Duration `json:"propagation"` // deletion or readiness to slice to rules and healthCheckNodePort
	Controller  Duration `json:"controller"`  // new pod ready to old pod deleted by the Deployment's controllers
	Kubelet     Duration `json:"kubelet"`     // deletion to SIGTERM
}

// Row is one dataplane in one mode.
type Row struct {
	Name      string `json:"name"` // unique, e.g. "plumb-nftables ignore+drop"
	Dataplane string `json:"dataplane"`
	Version   string `json:"version,omitempty"`
	Own       bool   `json:"own"`
	Mode      Mode   `json:"mode"`
	NoLocal   string `json:"noLocal,omitempty"` // drop or reject
	// Judged says that it claims to have KEP-1669 and is held to that: ours in mode fallback,
	// and those of others for which the feature terminating-fallback is declared.
	Judged bool `json:"judged"`

	Stream  record.Stream `json:"stream,omitempty"`  // that the row is of; empty: main
	Records string        `json:"records,omitempty"` // folder of its rollouts' records, from that of the report

	Wanted   int               `json:"wanted"`            // rollouts that were to be counted
	Rollouts []verdict.Rollout `json:"rollouts"`          // counted
	Invalid  []verdict.Rollout `json:"invalid,omitempty"` // run, shown, not counted

	Predicted *model.Prediction `json:"predicted,omitempty"` // of len(Rollouts) rollouts together; nil: no model, and an own ignore row cannot be judged
	Error     string            `json:"error,omitempty"`     // the row could not be run (to its end)
	// Unsupported is what this host or cluster lacks for the dataplane; the row was
	// not run, and that is neither a pass nor a failure.
	Unsupported string `json:"unsupported,omitempty"`
	// Beside says who else proxied Services where the row was measured, a line each: what
	// it shows may be theirs. Empty: nobody, or nobody was looked for (row existing).
	Beside   []string `json:"beside,omitempty"`
	Word     Word     `json:"word"`               // set by Write
	Says     string   `json:"says"`               // what happened, how sure that is, and whose it is; set by Write
	Sequence string   `json:"sequence,omitempty"` // E1-E3: what the client saw, one line per probe
}

// Word is a row's verdict.
type Word string

const (
	Pass        Word = "pass"        // a judged row within budget
	Fail        Word = "FAIL"        // a judged row that lost more, or answered more of them late
	Excess      Word = "EXCESS"      // an own ignore row lost more than the model allows
	Info        Word = "info"        // informs only
	Blind       Word = "blind"       // an own ignore row lost less than the model allows: the harness does not see
	Unsupported Word = "unsupported" // not run: the host or cluster lacks what the dataplane needs
	Invalid     Word = "invalid"     // not enough rollouts that may be believed, or none could be held against the model
)
