// Package conformance is the versioned ServiceConformanceReport: what one
// implementation of Services did with each behaviour, on one cluster, in one run.
// The report is the source; profiles, exit code and every rendering follow from
// its tests alone. Rendering is pure; write.go does the I/O.
//
//	r := conformance.Report{Implementation: ..., Tests: ...}
//	err := conformance.Write(dir, r)       // completes it, renders it into dir
//	r, err = conformance.Read(dir)         // either form, JSON or YAML
//	os.Exit(conformance.Complete(r).ExitCode)
//	diff := conformance.Compare(a, b)
//
// It takes what the suite says for granted, but for what it can hold against the
// report itself (see Complete). Nothing here is for concurrent use of one Report:
// functions take it by value and change nothing they are given.
package conformance

import (
	"cmp"
	"time"

	"github.com/plumbline/plumbline/suites/report/render"
)

// The version of the report. A field may be added; a change of meaning takes a
// new version.
const (
	APIVersion = "conformance.plumbline.io/v1alpha1"
	Kind       = "ServiceConformanceReport"
)

// Report is a whole run.
type Report struct {
	APIVersion     string         `json:"apiVersion"` // set by Complete
	Kind           string         `json:"kind"`       // set by Complete
	Implementation Implementation `json:"implementation"`
	Harness        Harness        `json:"harness"`
	Date           time.Time      `json:"date"`
	Duration       Duration       `json:"duration"`
	Seed           int64          `json:"seed"`
	Command        string         `json:"command,omitempty"` // the line that does it again
	Environment    Environment    `json:"environment"`
	Conclusion     Conclusion     `json:"conclusion"` // set by Complete
	ExitCode       int            `json:"exitCode"`   // set by Complete
	Why            string         `json:"why"`        // set by Complete: what the conclusion rests on
	Error          string         `json:"error,omitempty"`
	Chosen         int            `json:"chosen"` // behaviours that this run was to judge
	Of             int            `json:"of"`     // behaviours of the catalogue; 0: nobody has said
	Phases         []Phase        `json:"phases,omitempty"`
	Features       []Feature      `json:"features,omitempty"`
	Documented     []Documented   `json:"documented,omitempty"`
	Profiles       []Profile      `json:"profiles"` // set by Complete
	Tests          []Test         `json:"tests"`    // put in order by Complete
}

// Implementation is what was tested.
type Implementation struct {
	Organization string   `json:"organization,omitempty"`
	Project      string   `json:"project"`
	URL          string   `json:"url,omitempty"`
	Version      string   `json:"version"`
	Contact      []string `json:"contact,omitempty"`
	Mode         string   `json:"mode,omitempty"`         // its own word for how it was set up, e.g. "iptables"
	ConfigDigest string   `json:"configDigest,omitempty"` // of its configuration as installed
	Images       []string `json:"images,omitempty"`       // name@digest; of a program, name@digest of the file
}

// Harness is what tested it.
type Harness struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
}

// Environment is where the run took place.
type Environment struct {
	Cluster      string   `json:"cluster"` // kind, lab or existing
	Kubernetes   string   `json:"kubernetes"`
	NodeImage    string   `json:"nodeImage,omitempty"`
	Kernel       string   `json:"kernel,omitempty"`
	OS           string   `json:"os,omitempty"`
	CPUs         int      `json:"cpus,omitempty"`
	CNI          string   `json:"cni,omitempty"`
	IPFamily     string   `json:"ipFamily,omitempty"`     // ipv4, ipv6 or dual
	ControlPlane string   `json:"controlPlane,omitempty"` // of a lab: model or real (Kubernetes' own)
	Nodes        int      `json:"nodes,omitempty"`
	Zones        int      `json:"zones,omitempty"`
	LB           *LB      `json:"lb,omitempty"` // nil: the cluster has none
	Noise        *Noise   `json:"noise,omitempty"`
	Timeouts     string   `json:"timeouts,omitempty"`     // name=duration,...: waits for what is no matter of the dataplane
	FollowWithin Duration `json:"followWithin,omitempty"` // how late the dataplane was allowed to follow a change
	Lacks        string   `json:"lacks,omitempty"`        // what this run had less than another there, and why
	// Beside says who else proxied Services there, a line each: what passed may be theirs.
	Beside []string `json:"beside,omitempty"`
}

// LB is the load balancer's profile as it was configured.
type LB struct {
	Kind     string   `json:"kind"` // haproxy or vip
	Profile  string   `json:"profile,omitempty"`
	IPMode   string   `json:"ipMode,omitempty"`
	Interval Duration `json:"interval,omitempty"`
	Timeout  Duration `json:"timeout,omitempty"`
	Fall     int      `json:"fall,omitempty"`
	Rise     int      `json:"rise,omitempty"`
	Path     string   `json:"path,omitempty"` // of the health check
}

// Noise is what the control connections saw, which do not use the dataplane.
type Noise struct {
	Attempts int      `json:"attempts"`
	Failures int      `json:"failures"`
	P99      Duration `json:"p99"`
}

// Phase is one part of the run, in the order of the parts.
type Phase struct {
	Name     string   `json:"name"`
	Start    Duration `json:"start"` // since the run began
	Duration Duration `json:"duration"`
}

// State is what a dataplane declares of a feature.
type State string

const (
	FeatureSupported   State = "supported"
	FeatureUnsupported State = "unsupported"
	FeatureUnknown     State = "unknown"
)

// Feature is one declared feature. An unsupported one has a reason.
type Feature struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Documented is a behaviour that the dataplane is known not to have.
type Documented struct {
	Test   string   `json:"test"`   // its id
	Why    string   `json:"why"`    // in one sentence
	Source []string `json:"source"` // who says so: the dataplane's source, an issue or a document
}

// Summary is what all tests of a profile say together.
type Summary string

const (
	Success Summary = "success"
	Partial Summary = "partial"
	Failure Summary = "failure"
)

// Profile sums up the tests that name it.
type Profile struct {
	Name       string     `json:"name"`
	Result     Summary    `json:"result"`
	Statistics Statistics `json:"statistics"`
	Failed     []string   `json:"failedTests,omitempty"` // keys, of any level
	Skipped    []string   `json:"skippedTests,omitempty"`
}

// Statistics counts tests by result.
type Statistics struct {
	Passed       int `json:"passed"`
	Failed       int `json:"failed"`
	Skipped      int `json:"skipped"`
	Unsupported  int `json:"unsupported"`
	Inconclusive int `json:"inconclusive"`
}

// Level is how binding a behaviour is, in the words of RFC 2119.
type Level string

const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
	May    Level = "MAY"
)

// Result is what one test says.
type Result string

const (
	Pass         Result = "pass"
	Fail         Result = "fail"
	Skip         Result = "skip"         // the cluster lacks what the test needs
	Unsupported  Result = "unsupported"  // the dataplane declares that it does not do this
	Inconclusive Result = "inconclusive" // the harness could not tell, e.g. a control failed
)

// Test is one behaviour, in one IP family where it runs in each.
type Test struct {
	ID       string   `json:"id"`
	Title    string   `json:"title,omitempty"`
	IPFamily string   `json:"ipFamily,omitempty"` // IPv4, IPv6, or empty where it makes no difference
	Profile  string   `json:"profile"`
	Level    Level    `json:"level"`              // as the catalogue has it
	Binds    Level    `json:"binds,omitempty"`    // set by Complete: the level it has here, of a MUST that needs a feature nobody has declared
	Source   []string `json:"source,omitempty"`   // the KEP or document that says so
	Promised []string `json:"promised,omitempty"` // who says so in which words; of what failed or is inconclusive
	Upstream string   `json:"upstream,omitempty"` // the upstream e2e test, if there is one
	Features []string `json:"features,omitempty"` // names of those the dataplane must have for it
	Result   Result   `json:"result"`
	Reason   string   `json:"reason,omitempty"` // required unless it passed
	Known    string   `json:"known,omitempty"`  // set by Complete: what is documented of this failure
	Sent     string   `json:"sent,omitempty"`   // the attempts that decided it, of what failed or is inconclusive: how many, from whom to where
	Came     string   `json:"came,omitempty"`   // what came back
	Steps    []Step   `json:"steps,omitempty"`  // what was done, in order, of what failed or is inconclusive
	Legend   []Named  `json:"legend,omitempty"` // who has the addresses that these name
	Attempts int      `json:"attempts,omitempty"`
	Said     []string `json:"said,omitempty"` // what was measured besides, in words
	Streams  []Stream `json:"streams,omitempty"`
	Delay    Duration `json:"delay,omitempty"` // the longest measured propagation
	Duration Duration `json:"duration,omitempty"`
	Evidence []string `json:"evidence,omitempty"` // paths relative to the report, with slashes
}

// Step is one thing that a test did: it wrote an object, changed something, waited, or dialled.
type Step struct {
	At    Duration `json:"at"` // since the test began, when it was over
	Did   string   `json:"did"`
	Came  string   `json:"came,omitempty"`  // what came of it; empty: it was done
	Wrong bool     `json:"wrong,omitempty"` // which was not what is wanted; it may have been asked again
}

// Named is an address and who has it.
type Named struct {
	Address string `json:"address"`
	Who     string `json:"who"`
}

// Stream is a steady stream of attempts that a test has watched.
type Stream struct {
	Client  string   `json:"client"`
	Target  string   `json:"target"`
	Rate    float64  `json:"rate"` // attempts per second
	Sent    int      `json:"sent"`
	Failed  int      `json:"failed"`
	Outages []Outage `json:"outages,omitempty"`
	P50     Duration `json:"p50,omitempty"` // latencies of the attempts that were answered
	P99     Duration `json:"p99,omitempty"`
	Max     Duration `json:"max,omitempty"`
}

// Outage is a time without any answer within a stream.
type Outage struct {
	Start  Duration `json:"start"` // since the stream began
	Length Duration `json:"length"`
	Failed int      `json:"failed"`
}

// Key tells a test from every other of its report.
func (t Test) Key() string {
	if t.IPFamily == "" {
		return t.ID
	}
	return t.ID + " [" + t.IPFamily + "]"
}

// binding is the level that counts here.
func (t Test) binding() Level { return cmp.Or(t.Binds, t.Level) }

// level is that of the catalogue for people, and whether it is another here.
func (t Test) level() string { return string(t.Level) + render.Prefixed(", here ", string(t.Binds)) }

// Duration is text in a report.
type Duration = render.Duration
