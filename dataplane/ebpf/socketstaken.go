package ebpf

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// SocketsTaken says why this kernel does not take the programs at sockets, as one without
// CONFIG_CGROUP_BPF or whose verifier refuses them. It loads them, over maps of no size, and lets them go:
// 20 ms of a processor. Anything else that it meets, such as a lack of rights or memory, is not the
// kernel's last word, and no error: who loads them to stay says that. So it is with what the verifier refuses to one
// without PERFMON, of whom it asks more before Linux 6.12.5.
func SocketsTaken() error {
	return socketsTaken(mayPerfmon(), features.HaveProgramType, func(spec *ebpf.CollectionSpec) error {
		all, err := ebpf.NewCollection(spec)
		if err == nil {
			all.Close()
		}
		return err
	})
}

func socketsTaken(perfmon bool, have func(ebpf.ProgramType) error, load func(*ebpf.CollectionSpec) error) error {
	if err := have(ebpf.CGroupSockAddr); errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("the kernel has no programs at sockets (CONFIG_CGROUP_BPF): %w", err)
	}
	spec, err := loadSocket()
	if err != nil {
		return fmt.Errorf("read the programs at sockets: %w", err)
	}
	for _, m := range spec.Maps {
		m.Pinning = ebpf.PinNone
	}
	cfg := &Config{Logger: slog.New(slog.DiscardHandler)}
	if err := cfg.tell(spec); err != nil {
		return nil
	}
	err = load(spec)
	if errors.Is(err, unix.EACCES) && !perfmon {
		return nil
	}
	for _, no := range []error{unix.EINVAL, unix.EACCES, unix.E2BIG, ebpf.ErrNotSupported} {
		if errors.Is(err, no) {
			return fmt.Errorf("at sockets: %w", notLoaded(explained(err, features.HaveProgramHelper, perfmon)))
		}
	}
	return nil
}
