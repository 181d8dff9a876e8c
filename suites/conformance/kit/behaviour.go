// Package kit is what behaviours are written with: a cluster with probes in it,
// Services and EndpointSlices by hand, and expectations that count attempts.
//
//	Behaviour   one promise: id, level, who promises it, and a function
//	Open        Env: a stage, a dataplane, probes on every node
//	Env.Run     runs behaviours, those that disturb nobody side by side -> Result
//	Spec        what a behaviour's function works with
//
// # Observation
//
// Endpoints are made by hand: Services have no selector, and their EndpointSlices
// point at standing pods in whatever state a behaviour is about. So nothing
// depends on the times of a kubelet or a controller, and what a dataplane does is
// all that is seen. Behaviours about real pods that end use real ones.
//
// An expectation is a number of attempts by one client, all of which must be as
// wanted. It may be asked again only while the dataplane is allowed to be late:
// for Limit after the last change of an object, and not after it held once; what
// held late is asked a few times more at once. How long it took is reported. Each
// behaviour has control attempts before and after it that go to the nodes without a
// Service, a steady stream has another beside it, and each failure has some that go
// its way, in its protocol and as many; if they fail, the result is inconclusive, and
// the behaviour is made anew (anew.go).
package kit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/conformance/promise"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// Level is how binding a promise is, in the words of RFC 2119.
type Level = conformance.Level

const (
	Must   = conformance.Must
	Should = conformance.Should
	May    = conformance.May
)

// Profile groups behaviours in reports: Core is what every client of Services relies on, the
// others extend it by what a cluster may lack or does not use.
type Profile string

const (
	ProfileCore         Profile = "Core"
	ProfilePolicy       Profile = "TrafficPolicy"
	ProfileTerminating  Profile = "Terminating"
	ProfileAffinity     Profile = "Affinity"
	ProfileHealth       Profile = "Health"
	ProfileUDP          Profile = "UDP"
	ProfileSCTP         Profile = "SCTP"
	ProfileDual         Profile = "DualStack"
	ProfileServiceCIDR  Profile = "ServiceCIDR" // ranges that are added while a cluster runs
	ProfileExternalIPs  Profile = "ExternalIPs"
	ProfileTopology     Profile = "Topology"
	ProfileVIP          Profile = "LoadBalancer-VIP"
	ProfileSourceRanges Profile = "SourceRanges"
	ProfileLB           Profile = "LoadBalancer-Proxy"
	ProfileLifecycle    Profile = "Lifecycle"
)

// Need is something a cluster has or not.
type Need string

const (
	NeedZones    Need = "zones"     // nodes in three zones
	NeedNodes    Need = "nodes"     // rules and namespaces of nodes within reach
	NeedAgents   Need = "agents"    // the dataplane's agents can be stopped and started
	NeedAPI      Need = "api"       // the API can be made unreachable for a while
	NeedLB       Need = "balancer"  // our load balancer serves Services of type LoadBalancer
	NeedDual     Need = "dualstack" // both IP families
	NeedTaint    Need = "nodewrite" // Nodes may be tainted and labelled
	NeedServices Need = "servicecidr"
	NeedOutside  Need = "outside" // the client outside is at no node of the cluster
)

// Behaviour is one promise of a Service dataplane.
type Behaviour struct {
	ID       string            // stable: it names the promise in reports and catalogues
	Says     string            // the promise, one sentence
	Level    Level             //
	Profile  Profile           //
	Promises []promise.Promise // that its level follows from
	Writes   string            // the first Kubernetes that has what its objects need, where its promises are older
	Source   []string          // what says so beside them: code, issues, documents
	Upstream string            // the e2e test of kubernetes/kubernetes that corresponds, if any
	Features []Feature         // the dataplane must have them
	Needs    []Need            // the cluster must have them
	Serial   bool              // it disturbs others: nothing runs beside it
	Shares   bool              // but itself in the other IP family: what both do to the cluster is done once
	Waits    bool              // for longer than it works: it begins first, and as many others run beside it
	Long     bool              // it takes many times as long as most: it begins before them, lest it is left alone in the end
	Run      func(*Spec)
}

var id = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Check says what is wrong with a behaviour.
func (b Behaviour) Check() error {
	switch {
	case !id.MatchString(b.ID) || len(b.ID) > 45:
		return fmt.Errorf("behaviour %q: the id must be words of a-z and 0-9 with hyphens, at most 45 characters: it names objects", b.ID)
	case b.Says == "" || !strings.HasSuffix(b.Says, "."):
		return fmt.Errorf("behaviour %s: says nothing, or no whole sentence", b.ID)
	case b.Level != Must && b.Level != Should && b.Level != May:
		return fmt.Errorf("behaviour %s: level %q", b.ID, b.Level)
	case b.Profile == "" || len(b.Promises) == 0 || b.Run == nil:
		return fmt.Errorf("behaviour %s: profile, promise or function is missing", b.ID)
	case b.Serial && b.Waits:
		return fmt.Errorf("behaviour %s: it cannot wait beside others, and be alone", b.ID)
	case b.Long && (b.Serial || b.Waits):
		return fmt.Errorf("behaviour %s: only those that run beside others and take their places begin before them", b.ID)
	case b.Shares && !b.Serial:
		return fmt.Errorf("behaviour %s: it shares what it does to the cluster, which others would meet that run beside it", b.ID)
	case b.Level == Must && !slices.ContainsFunc(b.Promises, b.carries):
		return fmt.Errorf("behaviour %s: nobody but kube-proxy promises it to users in words that are quoted, or it is optional and its feature is not there: it is no MUST", b.ID)
	}
	if i := slices.IndexFunc(b.Source, promise.OfKubeProxy); b.Level == Must && i >= 0 {
		return fmt.Errorf("behaviour %s: %s is kube-proxy's own: it says nothing of a MUST", b.ID, b.Source[i])
	}
	for _, p := range b.Promises {
		if err := p.Check(); err != nil {
			return fmt.Errorf("behaviour %s: %w", b.ID, err)
		}
	}
	return nil
}

// carries tells whether a MUST may rest on a promise: it is there to be read, and binds all
// implementations, or those that declare its feature.
func (b Behaviour) carries(p promise.Promise) bool {
	return p.Binds() && p.Quote != "" && (p.Optional == "" || slices.Contains(b.Features, Feature(p.Optional)))
}

// Since is the first Kubernetes in which all of its promises hold, and its objects can be written.
func (b Behaviour) Since() (version string) {
	version = b.Writes
	for _, p := range b.Promises {
		version = promise.Newest(version, p.Since)
	}
	return version
}

// Sources are the addresses of its promises, and what says so beside them.
func (b Behaviour) Sources() (out []string) {
	for _, p := range b.Promises {
		if !slices.Contains(out, p.Where) {
			out = append(out, p.Where)
		}
	}
	return append(out, b.Source...)
}

// entry is a behaviour in the catalogue.
type entry struct {
	ID       string     `json:"id"`
	Level    Level      `json:"level"`
	Profile  Profile    `json:"profile"`
	Says     string     `json:"says"`
	Since    string     `json:"since"`
	Promises []promised `json:"promises"`
	Source   []string   `json:"source,omitempty"`
	Upstream string     `json:"upstream,omitempty"`
	Features []Feature  `json:"features,omitempty"`
	Needs    []Need     `json:"needs,omitempty"`
	Serial   bool       `json:"serial,omitempty"`
}

// promised is a promise there: its own words, or in summary.
type promised struct {
	Kind     promise.Kind `json:"kind"`
	Where    string       `json:"where"`
	Quote    string       `json:"quote,omitempty"`
	Summary  string       `json:"summary,omitempty"`
	Optional string       `json:"optional,omitempty"` // the feature that says who has it
}

// Catalogue is a list of promises, as YAML.
func Catalogue(all []Behaviour) ([]byte, error) {
	var out []entry
	for _, b := range all {
		var promises []promised
		for _, p := range b.Promises {
			promises = append(promises, promised{p.Kind, p.Where, p.Quote, p.Summary, p.Optional})
		}
		out = append(out, entry{b.ID, b.Level, b.Profile, b.Says, b.Since(), promises, b.Source, b.Upstream, b.Features, b.Needs, b.Serial})
	}
	text, err := yaml.Marshal(map[string]any{"behaviours": out})
	if err != nil {
		return nil, fmt.Errorf("write the catalogue: %w", err)
	}
	return append([]byte("# Generated from suites/conformance/behaviours by its TestCatalogue -update. A diff here is a change of promise.\n"), text...), nil
}
