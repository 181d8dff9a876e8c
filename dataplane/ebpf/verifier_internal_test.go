package ebpf

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/plumbline/plumbline/fixtures/need"
)

// Words is a verifier's log that takes none after it was closed.
type Words struct {
	bytes.Buffer
	Closed bool
}

func (w *Words) Write(b []byte) (int, error) {
	if w.Closed {
		return 0, io.ErrClosedPipe
	}
	return w.Buffer.Write(b)
}

func (w *Words) Close() error { w.Closed = true; return nil }

// An error of a load has the end of what the verifier said, on the one line that an error is; who
// asks for its log gets all of it.
func TestNotLoaded(t *testing.T) {
	need.Root(t)
	var body asm.Instructions
	for range 20 {
		body = append(body, asm.Mov.Imm(asm.R2, 77))
	}
	body = append(body, asm.LoadMem(asm.R0, asm.R5, 0, asm.DWord), asm.Return()) // of what is in no register
	_, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: body, License: "GPL"})
	text := notLoaded(err).Error()
	for _, want := range []string{"load the programs: ", "r2 = 77", "!read_ok", " | "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if strings.Contains(text, "\n") || strings.Count(text, "r2 = 77") > lastLines {
		t.Errorf("it is not one line with the log's end: %s", text)
	}
	var log Words
	cfg := Config{Verifier: func() (io.WriteCloser, error) { return &log, nil }}
	if err := cfg.tellVerifier(&plumbObjects{}, err); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "r2 = 77"); n != 20 || !log.Closed {
		t.Errorf("of 20 instructions %d are in the log:\n%s", n, log.String())
	}
}
