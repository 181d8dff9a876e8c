package iptables_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Auto is the flavour of kubelet's chains, whatever the program is; nft's if it is both; and the
// program's where there are none.
func TestAuto(t *testing.T) {
	for _, f := range flavours() {
		needFlavour(t, f)
	}
	const hint, before, others = "KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY", "KUBE-PROXY-CANARY"
	for _, c := range []struct {
		name        string
		nft, legacy string // the chain that is there
		program     iptables.Flavour
		want        iptables.Flavour
	}{
		{"nothing", "", "", iptables.NFT, iptables.NFT},
		{"nothing, and legacy programs", "", "", iptables.Legacy, iptables.Legacy},
		{"nft", hint, "", iptables.Legacy, iptables.NFT},
		{"legacy", "", hint, iptables.NFT, iptables.Legacy},
		{"legacy, of an older kubelet", "", before, iptables.NFT, iptables.Legacy},
		{"both", before, hint, iptables.Legacy, iptables.NFT},
		{"of somebody else", others, others, iptables.Legacy, iptables.Legacy},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := netns.ForTest(t, "auto")
			dir := t.TempDir()
			program, err := exec.LookPath("iptables-" + string(c.program))
			if err == nil {
				err = os.Symlink(program, filepath.Join(dir, "iptables"))
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			for program, chain := range map[string]string{"iptables-nft": c.nft, "ip6tables-legacy": c.legacy} {
				if chain != "" {
					run(t, ns, program, "-t", "mangle", "-N", chain)
				}
			}
			if got, err := iptables.Auto.Resolve(t.Context(), ns.FD()); err != nil || got != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}
