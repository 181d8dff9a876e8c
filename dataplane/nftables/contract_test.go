package nftables_test

import (
	"flag"
	"log/slog"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/nftables"
)

var update = flag.Bool("update", false, "rewrite the nftables sections of the cases and ruleset.nft")

const cases = "../testdata"

func backend() dptest.Backend {
	return dptest.Backend{
		Section: "nftables",
		Render:  nftables.Render,
		New: func(t *testing.T, netns int) dptest.Target {
			target := nftables.New(nftables.Config{Logger: logger(t), NetNS: netns})
			t.Cleanup(func() { _ = target.Close() })
			return target
		},
		Faulty: func(t *testing.T, netns int, fault func() error) dptest.Target {
			target := nftables.NewNarrow(t, nftables.Config{Logger: logger(t), NetNS: netns, Fault: fault})
			t.Cleanup(func() { _ = target.Close() })
			return target
		},
		Dump:  nftables.Dump,
		Clean: nftables.Clean,
	}
}

func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func FuzzNames(f *testing.F) { dptest.FuzzNames(f, backend()) }

func TestContract(t *testing.T) { dptest.Contract(t, cases, backend(), *update) }
