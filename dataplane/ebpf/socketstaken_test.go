package ebpf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
)

// What the kernel says of the programs at sockets is an error where it is its last word.
func TestSocketsTaken(t *testing.T) {
	need.Root(t)
	if err := SocketsTaken(); err != nil {
		t.Fatalf("of this kernel is said: %v", err)
	}
	has := func(ebpf.ProgramType) error { return nil }
	lacks := func(ebpf.ProgramType) error { return fmt.Errorf("cgroup_sock_addr: %w", ebpf.ErrNotSupported) }
	for _, c := range []struct {
		name string
		have func(ebpf.ProgramType) error
		load error
		want string // of the error; empty: none
		bare bool   // without PERFMON
	}{
		{"without CONFIG_CGROUP_BPF", lacks, nil, "the kernel has no programs at sockets (CONFIG_CGROUP_BPF)", false},
		{"an attach type is not known", has, unix.EINVAL, "at sockets: load the programs: ", false},
		{"the verifier says no", has, &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"R1 invalid mem access"}}, "R1 invalid mem access", false},
		{"the verifier asks more without PERFMON", has, &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"R1 invalid mem access"}}, "", true},
		{"an attach type is not known without PERFMON", has, unix.EINVAL, "at sockets: load the programs: ", true},
		{"not permitted", has, unix.EPERM, "", false},
		{"no memory", has, unix.ENOMEM, "", false},
		{"taken", has, nil, "", false},
	} {
		loaded := 0
		err := socketsTaken(!c.bare, c.have, func(spec *ebpf.CollectionSpec) error {
			loaded = len(spec.Programs)
			return c.load
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if want := len((&socketPrograms{}).hooks()); loaded != want && !errors.Is(err, ebpf.ErrNotSupported) {
			t.Errorf("%s: %d programs were tried, want %d", c.name, loaded, want)
		}
	}
}
