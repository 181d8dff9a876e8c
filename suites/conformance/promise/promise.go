// Package promise has what is promised to those who use Services: who says it, where, in
// which words, and since which Kubernetes. The level of a behaviour follows from its
// promises: a MUST has one to users that somebody other than kube-proxy makes, in a
// comment of the API, in the documentation or in a KEP that is not about kube-proxy alone.
// What only kube-proxy does, or a test of upstream's wants, is a SHOULD at most.
//
//	Promise   who says what, and where
//	api.go, documentation.go, kep.go   those that a MUST may rest on
//	kubeproxy.go                       those that it may not
//	over.go                            the cells that those about the path of a packet hold over, and why others are not
package promise

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plumbline/plumbline/suites/conformance/cell"
)

// Kind is who makes a promise.
type Kind string

const (
	API           Kind = "API comment"
	Documentation Kind = "documentation"
	KEP           Kind = "KEP"
	KubeProxy     Kind = "kube-proxy"    // its code, its KEPs, and what pages say of it alone
	Test          Kind = "upstream test" // which nobody has promised anything in
)

// Promise is one thing that somebody says.
type Promise struct {
	Kind     Kind
	Where    string     // an address
	Quote    string     // its own words, with blanks for breaks of lines; or
	Summary  string     // those of this project
	Since    string     // the first Kubernetes that it holds in by default, such as 1.26
	Optional string     // it may be left: the feature that says who has it, which a MUST then needs
	Over     cell.Space // the cells it holds over, with exceptions; or
	NoPath   string     // why it is not about the path of a packet
}

// first is the oldest Kubernetes that the suite can ask: the first with EndpointSlices as
// it writes them.
const first = "1.21"

// proxyKEPs are KEPs that are about kube-proxy alone, by their titles and goals.
var proxyKEPs = []string{"KEP-2447", "KEP-2448", "KEP-2450", "KEP-3836", "KEP-3866"} // const

var (
	anAddress = regexp.MustCompile(`^https://\S+$`)    // const
	aVersion  = regexp.MustCompile(`^1\.([0-9]{1,3})`) // const
)

// Binds tells whether a MUST may rest on a promise.
func (p Promise) Binds() bool { return p.Kind == API || p.Kind == Documentation || p.Kind == KEP }

// Says is what it says in a line.
func (p Promise) Says() string {
	if p.Quote != "" {
		return "“" + p.Quote + "”"
	}
	return "in summary: " + p.Summary
}

// Check says what is wrong with a promise.
func (p Promise) Check() error {
	switch {
	case !anAddress.MatchString(p.Where):
		return fmt.Errorf("promise at %q: no address", p.Where)
	case (p.Quote == "") == (p.Summary == "") || strings.Contains(p.Quote+p.Summary, "\n"):
		return fmt.Errorf("promise at %s: it has either a quotation or a summary, of one line", p.Where)
	case minor(p.Since) < minor(first):
		return fmt.Errorf("promise at %s: since %q, want a version from %s on", p.Where, p.Since, first)
	case p.Binds() && OfKubeProxy(p.Where):
		return fmt.Errorf("promise at %s: it is kube-proxy's own, no %s that binds others", p.Where, p.Kind)
	case (p.Over.Of == nil) == (p.NoPath == ""):
		return fmt.Errorf("promise at %s: it has either cells that it holds over, or a reason why it is about the path of no packet", p.Where)
	case slices.ContainsFunc(p.Over.Except, func(e cell.Exception) bool { return !anAddress.MatchString(e.Document) || e.Says == "" }):
		return fmt.Errorf("promise at %s: an exception names no document, or not what it says", p.Where)
	case !p.Binds() && p.Kind != KubeProxy && p.Kind != Test:
		return fmt.Errorf("promise at %s: there is no kind %q", p.Where, p.Kind)
	}
	return nil
}

// OfKubeProxy tells whether an address, or the number of a KEP, is of what kube-proxy
// alone does.
func OfKubeProxy(where string) bool {
	for _, number := range proxyKEPs {
		if where == number || strings.Contains(where, "/"+strings.TrimPrefix(number, "KEP-")+"-") {
			return true
		}
	}
	return strings.Contains(where, "/pkg/proxy/") || strings.Contains(where, "/cmd/kube-proxy/") || strings.Contains(where, "#proxy-mode-")
}

// Newest is the later of two versions; empty is before all others.
func Newest(a, b string) string {
	if minor(b) > minor(a) {
		return b
	}
	return a
}

// Holds tells whether what is promised since one version holds in another, in the form
// of an API server's (v1.33.2+k3s1). What cannot be read holds everything.
func Holds(since, version string) bool {
	n := minor(strings.TrimPrefix(version, "v"))
	return n < 0 || n >= minor(since)
}

// minor is the number of a version after 1; -1: it is none.
func minor(version string) int {
	m := aVersion.FindStringSubmatch(version)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n
}
