package ebpf_test

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

var (
	callsMap  = regexp.MustCompile(`^\d+: \(85\) call bpf_map_(lookup|update|delete)_elem#`)
	registers = regexp.MustCompile(`\bR([0-9])(?:_[rw]+)?=([a-z_]+)`)
)

// keysOfArguments looks in the verifier's words for calls by which a map gets a key or a value that stands in
// memory of who called the function ("mem"), which maps take from Linux 6.2 on (see SEPARATE in bpf/maps.h).
func keysOfArguments(log string) (calls int, old []string) {
	is := map[string]string{} // what a register points to
	for line := range strings.Lines(log) {
		if m := callsMap.FindStringSubmatch(line); m != nil {
			calls++
			if is["2"] == "mem" || m[1] == "update" && is["3"] == "mem" {
				old = append(old, strings.TrimSpace(line))
			}
		}
		for _, m := range registers.FindAllStringSubmatch(line, -1) {
			is[m[1]] = m[2]
		}
	}
	return calls, old
}

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
	calls, old := keysOfArguments(log.String())
	if calls < 20 {
		t.Errorf("the log has %d calls that give maps keys", calls)
	}
	for _, line := range old {
		t.Errorf("Linux before 6.2 refuses a key or a value that the function was given by its caller: %s", line)
	}
	w.goes(frame{device: "pa", src: from(podA), dst: s.vip(false), proto: objects.UDP})
	log.Reset()
	apply(t, started(t, w.cfg), nil, planOf(s))
	if log.Len() > 0 {
		t.Error("who does not ask for it gets it")
	}
	if left, err := os.ReadDir(ebpf.LayoutFolder(w.cfg.Pins)); err != nil || len(left) != 2+15 {
		t.Errorf("%d pins, want two programs and 15 maps: %v", len(left), err)
	}
}
