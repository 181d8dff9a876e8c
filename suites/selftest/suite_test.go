// Package selftest tests the harness itself on real clusters: what runs leave when they
// are stopped, and what they do on a host and in a cluster that is full of other people's
// things. Its specs start the programs of bin/ as a user would.
//
//	make selftest CLUSTER=lab        stops runs in labs at many steps; kind: on kind
//	make selftest CLUSTER=existing   runs on a cluster that somebody else has made, with kind
package selftest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// opts are the flags, read once before the specs run.
var opts struct{ cluster, results string }

// takeDown is how long what a run has made may take to go.
const takeDown = 3 * time.Minute

func TestMain(m *testing.M) {
	flag.StringVar(&opts.cluster, "cluster", "", "run the specs of kind, lab or existing; without it all skip by name")
	flag.StringVar(&opts.results, "results", "results", "directory for what the runs write")
	flag.Parse()
	if !slices.Contains([]string{"", "kind", "lab", "existing"}, opts.cluster) {
		fmt.Fprintf(os.Stderr, "selftest: unknown -cluster %q; known: kind, lab, existing\n", opts.cluster)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func TestSelf(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	if suite.Timeout == time.Hour { // Ginkgo's default
		suite.Timeout = 3 * time.Hour
	}
	ginkgo.RunSpecs(t, "selftest", suite, reporter)
}

// only skips a spec of other clusters than the one that was asked for.
func only(clusters ...string) {
	if !slices.Contains(clusters, opts.cluster) {
		ginkgo.Skip(fmt.Sprintf("needs -cluster=%s (make selftest)", clusters[0]))
	}
}
