package ebpf_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// The verifier's log is there for who asks, also where the programs are pinned already; and these
// serve on, as others of the same build.
func TestVerifierLog(t *testing.T) {
	s := service{number: 1, endpoints: both(2)}
	var log ebpf.Words
	w := newWorld(t, planOf(s), nil)
	if err := w.target.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := w.cfg
	cfg.Verifier = func() (io.WriteCloser, error) { return &log, nil }
	apply(t, started(t, cfg), nil, planOf(s))
	for _, line := range []string{"program plumb_ingress\n", "program plumb_egress\n", "Validating beginning() func#", "verification time"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log of %d bytes has no %q", log.Len(), line)
		}
	}
	t.Logf("%d bytes", log.Len())
	w.goes(frame{device: "pa", src: from(podA), dst: s.vip(false), proto: objects.UDP})
	log.Reset()
	apply(t, started(t, w.cfg), nil, planOf(s))
	if log.Len() > 0 {
		t.Error("who does not ask for it gets it")
	}
	if left, err := os.ReadDir(w.cfg.Pins + "/v1"); err != nil || len(left) != 2+15 {
		t.Errorf("%d pins, want two programs and 15 maps: %v", len(left), err)
	}
}
