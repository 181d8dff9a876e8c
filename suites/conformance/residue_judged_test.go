package conformance

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// What a dataplane leaves is held against it wherever it is seen. Where nobody enters the
// nodes, that nothing was seen is no pass.
func TestResidueIsJudged(t *testing.T) {
	o := New()
	o.Stage.Dir = t.TempDir()
	left := &cluster.Residue{Left: map[string][]string{"n1": {"plumb-nftables: table ip plumbline"}}}
	for _, c := range []struct {
		cluster, dataplane string
		removed            error
		want               conformance.Result
	}{
		{"kind", "plumb-nftables", nil, conformance.Pass},
		{"kind", "plumb-nftables", left, conformance.Fail},
		{"kind", "plumb-nftables", errors.New("no"), conformance.Inconclusive},
		{"existing", "plumb-nftables", nil, conformance.Skip},
		{"existing", "plumb-nftables", left, conformance.Fail},
		{"kind", "existing", nil, conformance.Skip},
	} {
		o.Stage.Cluster, o.Dataplane = c.cluster, c.dataplane
		got := o.residue(c.removed)
		if got.Result != c.want {
			t.Errorf("%s on %s, %v: %s, want %s", c.dataplane, c.cluster, c.removed, got.Result, c.want)
		}
		if doubt := c.want == conformance.Fail || c.want == conformance.Inconclusive; doubt != (len(got.Promised) > 0 && strings.Contains(got.Promised[0], "kube-proxy: “Although")) {
			t.Errorf("%s is promised by %q", c.want, got.Promised)
		}
	}
}
