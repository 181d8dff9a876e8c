package backend

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
)

// both are the targets of two backends on one node, the one that was there and the one that comes.
type both struct{ there, comes dptest.Target }

func (b both) Apply(ctx context.Context, old, new *plan.Plan) error {
	return errors.Join(b.there.Apply(ctx, old, new), b.comes.Apply(ctx, old, new))
}

// Where the rules of two backends are on a node, as while one takes over from the other, each packet goes
// where it does by one of them alone, and from the source that it has then: none is translated
// twice, and none is masqueraded that would not be.
func TestBesideEachOther(t *testing.T) {
	need.Root(t)
	cases := []string{"masquerade-*", "hairpin-*", "host-network-*", "bad-input-endpoint-*", "source-ranges-*ed", "etp-local-every-*", "etp-cluster-*",
		"nodeport-cluster", "lb-vip-*", "externalip-*", "dual-stack*", "affinity-hairpin", "affinity-vip*", "*-recreated"}
	kernel := map[string]dptest.Backend{"nftables": besideNFTables(), "iptables": besideIPTables()}
	for there, first := range kernel {
		for comes, b := range kernel {
			if there == comes {
				continue
			}
			start, clean, render, dump := b.New, b.Clean, b.Render, b.Dump
			b.Render = func(p *plan.Plan) string { return first.Render(p) + render(p) }
			b.Dump = func(netns int) (string, error) { // both are there, all the while
				one, err := first.Dump(netns)
				other, failed := dump(netns)
				return one + other, errors.Join(err, failed)
			}
			b.New = func(t *testing.T, netns int) dptest.Target {
				return both{first.New(t, netns), start(t, netns)}
			}
			b.Clean = func(netns int) error { return errors.Join(first.Clean(netns), clean(netns)) }
			t.Run(comes+" beside "+there, func(t *testing.T) {
				t.Parallel()
				dptest.Packets(t, "../testdata", b, cases...)
			})
		}
	}
}

func besideNFTables() dptest.Backend {
	return dptest.Backend{
		Section: "nftables", Render: nftables.Render, Dump: nftables.Dump, Clean: nftables.Clean,
		New: func(t *testing.T, netns int) dptest.Target {
			target := nftables.New(nftables.Config{Logger: said(t), NetNS: netns})
			t.Cleanup(func() { _ = target.Close() })
			return target
		},
	}
}

func besideIPTables() dptest.Backend {
	return dptest.Backend{
		Section: "iptables", Render: iptables.Render, Clean: iptables.Clean,
		Dump: func(netns int) (string, error) { return iptables.DumpFlavour(iptables.NFT, netns) },
		New: func(t *testing.T, netns int) dptest.Target {
			target := iptables.New(iptables.Config{Logger: said(t), NetNS: netns, Flavour: iptables.NFT})
			t.Cleanup(func() { _ = target.Close() })
			return target
		},
	}
}

func said(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
