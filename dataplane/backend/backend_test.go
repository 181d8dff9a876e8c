package backend_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

func TestMain(m *testing.M) {
	if err := need.OwnBPFFS(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// What a backend leaves is recognised by it alone, and nothing of it is left by Clean.
func TestLeft(t *testing.T) {
	need.Program(t, "iptables-nft")
	need.Program(t, "iptables-legacy")
	p := &plan.Plan{Services: map[objects.Name]plan.Service{{Name: "web"}: {Frontends: []plan.Frontend{{
		Key:     plan.Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: objects.TCP, Port: 80},
		Outside: plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: netip.MustParseAddr("10.244.1.2"), Port: 8080}}},
	}}}}}
	for name := range backend.All(0) {
		for _, flavour := range []iptables.Flavour{iptables.NFT, iptables.Legacy} {
			if name != "iptables" && flavour == iptables.Legacy {
				continue
			}
			t.Run(name+"/"+string(flavour), func(t *testing.T) {
				ns := netns.ForTest(t, "left")
				all := backend.All(ns.FD())
				left := func() string {
					t.Helper()
					var out []string
					for other, b := range all {
						what, err := b.Left()
						if err != nil {
							t.Fatal(err)
						}
						for _, w := range what {
							out = append(out, other+": "+w)
						}
					}
					return strings.Join(out, "\n")
				}
				if text := left(); text != "" {
					t.Fatalf("in an empty namespace:\n%s", text)
				}
				r := all[name].Start(backend.Options{Flavour: flavour, MasqueradeBit: 12}, slog.New(slog.DiscardHandler))
				if err := r.Apply(t.Context(), nil, p); err != nil {
					t.Fatal(err)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				text := left()
				if text == "" {
					t.Error("nothing is recognised")
				}
				for line := range strings.Lines(text) {
					if !strings.HasPrefix(line, name+": ") {
						t.Errorf("another backend takes it for its own: %s", line)
					}
				}
				t.Log(text)
				if err := all[name].Clean(); err != nil {
					t.Fatal(err)
				}
				if text := left(); text != "" {
					t.Errorf("after Clean:\n%s", text)
				}
			})
		}
	}
}
