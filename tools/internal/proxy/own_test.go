package proxy

import (
	"strings"
	"syscall"
	"testing"

	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/tools/internal/call"
)

// Tables that an agent owns are nobody else's to flush or clean while it runs. They outlive it,
// however it ends, are taken over by the next one, and go with --cleanup.
func TestOwnTables(t *testing.T) {
	w := newWorld(t, theNode(), service("web", "10.96.0.1", nil))
	serves := func() bool {
		w.nft(t, "flush", "ruleset")
		return strings.Contains(w.nft(t, "list", "table", "ip", "plumbline"), "10.96.0.1")
	}
	flag := []string{"--backend=nftables", "--nftables-own-tables"}
	if err := nftables.Ownable(w.ns.FD()); err != nil {
		_, said, code := w.call(t, append(flag, "--node-name=here", "--kubeconfig="+w.kubeconfig)...)
		if code != call.Failed || !strings.Contains(said, "plumb-proxy: --nftables-own-tables: tables that have an owner and outlive it need Linux 6.9") {
			t.Errorf("exit %d, said %q where it is not possible", code, said)
		}
		return
	}
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		p := w.start(t, flag...)
		if !serves() {
			t.Error("another's flush took the rules away")
		}
		_, said, code := w.call(t, "--cleanup")
		if code != call.Failed || !strings.Contains(said, "table ip plumbline is owned by another process, at netlink port") {
			t.Errorf("--cleanup beside the owner: exit %d, said %q", code, said)
		}
		p.end(t, end)
		if text := w.nft(t, "list", "table", "ip", "plumbline"); !strings.Contains(text, "10.96.0.1") {
			t.Errorf("the rules went with the process (%s):\n%s", end, text)
		}
	}
	w.start(t, "--backend=nftables").end(t, syscall.SIGTERM)
	w.output(t, "--cleanup")
	if text := w.nft(t, "list", "ruleset"); strings.Contains(text, "plumbline") {
		t.Errorf("left after --cleanup:\n%s", text)
	}
}
