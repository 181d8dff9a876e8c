package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// lastLines is how much of the verifier's log an error has: what it said no to, and the
// instructions before that.
const lastLines = 8

// notLoaded is what a failed load says.
func notLoaded(err error) error {
	var v *ebpf.VerifierError
	if !errors.As(err, &v) || len(v.Log) == 0 {
		return fmt.Errorf("load the programs: %w", err)
	}
	lines := slices.Clone(v.Log[max(0, len(v.Log)-lastLines):])
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return fmt.Errorf("load the programs: %w; the verifier's last words: %s", err, strings.Join(lines, " | "))
}

// explained names what the kernel lacks for programs that it does not load: the verifier's words are
// about instructions.
func explained(err error, have func(ebpf.ProgramType, asm.BuiltinFunc) error, perfmon bool) error {
	switch {
	case errors.Is(have(ebpf.SchedCLS, asm.FnLoop), ebpf.ErrNotSupported):
		return fmt.Errorf("the kernel lacks bpf_loop (Linux 5.17): %w", err)
	case errors.Is(err, unix.EACCES) && !perfmon:
		return fmt.Errorf("without CAP_PERFMON they are for Linux 6.12.5 and later: %w", err)
	}
	return err
}

// mayPerfmon tells whether the verifier asks less of this process.
func mayPerfmon() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN)|data[1].Effective&(1<<(unix.CAP_PERFMON-32)) != 0
}

// tellVerifier writes what the verifier said of each program, or of the one that it refused.
func (c *Config) tellVerifier(objs *plumbObjects, err error) error {
	if c.Verifier == nil {
		return nil
	}
	log, failed := c.Verifier()
	if failed != nil {
		return fmt.Errorf("open the verifier's log: %w", failed)
	}
	say := func(name, text string) {
		_, err := fmt.Fprintf(log, "program %s\n%s\n", name, text)
		failed = errors.Join(failed, err)
	}
	var v *ebpf.VerifierError
	if errors.As(err, &v) {
		say("refused", strings.Join(v.Log, "\n"))
	}
	for _, h := range objs.hooks() {
		if err == nil {
			say(h.name, h.program.VerifierLog)
		}
	}
	if failed = errors.Join(failed, log.Close()); failed != nil {
		return fmt.Errorf("write the verifier's log: %w", failed)
	}
	return nil
}
