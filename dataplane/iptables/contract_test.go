package iptables_test

import (
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

var update = flag.Bool("update", false, "rewrite the iptables sections of the cases")

const cases = "../testdata"

func flavours() []iptables.Flavour { return []iptables.Flavour{iptables.NFT, iptables.Legacy} }

func backend(flavour iptables.Flavour) dptest.Backend {
	return dptest.Backend{
		Section: "iptables",
		Render:  iptables.Render,
		New: func(t *testing.T, ns int) dptest.Target {
			target := iptables.New(iptables.Config{Logger: logger(t), NetNS: ns, Flavour: flavour})
			t.Cleanup(func() { _ = target.Close() })
			return target
		},
		Dump:  func(ns int) (string, error) { return iptables.DumpFlavour(flavour, ns) },
		Clean: iptables.Clean,
		Faulty: func(t *testing.T, ns int, fault func() error) dptest.Target {
			return iptables.NewInParts(iptables.Config{Logger: logger(t), NetNS: ns, Flavour: flavour, Fault: fault})
		},
	}
}

func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func FuzzNames(f *testing.F) { dptest.FuzzNames(f, backend(iptables.Auto)) }

// The golden sections are the same for both flavours.
func TestContract(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		if !*update { // both write the same files
			t.Parallel()
		}
		dptest.Contract(t, cases, backend(f), *update)
	})
}

func TestGolden(t *testing.T) { dptest.Golden(t, cases, backend(iptables.Auto), *update) }

// each runs a test with every flavour that this host has the programs and the
// kernel's tables for.
func each(t *testing.T, test func(*testing.T, iptables.Flavour)) {
	for _, f := range flavours() {
		t.Run(string(f), func(t *testing.T) {
			needFlavour(t, f)
			test(t, f)
		})
	}
}

// needFlavour asks a fresh namespace: a kernel may lack the legacy tables.
func needFlavour(t testing.TB, f iptables.Flavour) {
	t.Helper()
	need.Root(t)
	ns := netns.ForTest(t, "flavour")
	for _, name := range []string{"iptables-", "ip6tables-"} {
		program := name + string(f)
		need.Program(t, program)
		err := ns.Do(func() error { return exec.CommandContext(t.Context(), program, "-t", "nat", "-S").Run() })
		if err == nil {
			continue
		}
		if os.Getenv("REQUIRE") == "1" && f == iptables.NFT {
			t.Fatalf("needs the kernel's tables of %s (REQUIRE=1: not skipped): %v", program, err)
		}
		t.Skipf("this kernel has no tables for %s: %v", program, err)
	}
}
