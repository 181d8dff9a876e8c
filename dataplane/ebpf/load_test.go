package ebpf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// A kernel that lacks something says a number or quotes an instruction; the error names what it is,
// and who has it.
func TestExplained(t *testing.T) {
	unknown, refused := errors.New("unknown func bpf_loop#181"), fmt.Errorf("verifier: %w", unix.EACCES)
	for name, c := range map[string]struct {
		err, has error
		perfmon  bool
		say      string
	}{
		"old":             {unknown, ebpf.ErrNotSupported, true, "bpf_loop (Linux 5.17)"},
		"new":             {unknown, nil, true, ""},
		"may not ask":     {unknown, unix.EPERM, true, ""},
		"without PERFMON": {refused, nil, false, "CAP_PERFMON they are for Linux 6.12.5"},
		"with PERFMON":    {refused, nil, true, ""},
		"not the kernel":  {unknown, nil, false, ""},
	} {
		err := explained(c.err, func(ebpf.ProgramType, asm.BuiltinFunc) error { return c.has }, c.perfmon)
		if !errors.Is(err, c.err) || (c.say == "") != (err == c.err) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want %q", name, err, c.say)
		}
	}
}
