package userspace_test

import (
	"errors"
	"flag"
	"log/slog"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/netns"
)

var update = flag.Bool("update", false, "rewrite the userspace sections of the cases and ruleset.nft")

const cases = "../testdata"

func backend() dptest.Backend {
	return dptest.Backend{
		Section: "userspace",
		Render:  userspace.Render,
		New: func(t *testing.T, node int) dptest.Target {
			return started(t, userspace.Config{Logger: logger(t), NetNS: node})
		},
		Faulty: func(t *testing.T, node int, fault func() error) dptest.Target {
			target := userspace.NewInParts(userspace.Config{Logger: logger(t), NetNS: node, Fault: fault})
			t.Cleanup(func() { _ = target.Close() })
			return target
		},
		Dump:            userspace.Dump,
		Clean:           userspace.Clean,
		NoSCTP:          "the userspace proxy forwards TCP and UDP",
		ForgetsAffinity: "the userspace proxy remembers it in the process",
		EndsConnections: "the userspace proxy's connections end with it",
	}
}

func started(t testing.TB, cfg userspace.Config) *userspace.Target {
	target := userspace.New(cfg)
	t.Cleanup(func() { _ = target.Close() })
	return target
}

func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func FuzzNames(f *testing.F) { dptest.FuzzNames(f, backend()) }

func TestContract(t *testing.T) { dptest.Contract(t, cases, backend(), *update) }

// A plan with SCTP is applied but for its SCTP frontends, which are named.
func TestSCTPIsRefused(t *testing.T) {
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range all {
		if !c.Options.SCTP {
			continue
		}
		seen++
		t.Run(c.Name, func(t *testing.T) {
			p, node := c.Plan(), netns.ForTest(t, "node").FD()
			target := started(t, userspace.Config{Logger: logger(t), NetNS: node})
			err := target.Apply(t.Context(), nil, p)
			var refused *plan.Refused
			if !errors.As(err, &refused) {
				t.Fatalf("applied with %v", err)
			}
			for k := range plan.Index(p) {
				if why := refused.Frontends[k]; (why != nil) != (k.Protocol == objects.SCTP) {
					t.Errorf("%s: refused for %v", k, why)
				}
			}
			if got, err := userspace.Dump(node); err != nil || got != userspace.Render(p) {
				t.Errorf("kernel has %s %v", got, err)
			}
		})
	}
	if seen == 0 {
		t.Error("no case has SCTP")
	}
}
