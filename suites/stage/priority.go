package stage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/again"
)

// nice is the priority of a measuring process, above that of the pods it
// measures: what it stamps must not wait for what it watches.
const nice = -10

// raisePriority gives every thread of this process, and with them all later
// ones and the provider, a higher priority. Where that is not allowed the
// lateness of the probes tells.
func raisePriority() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("raise the harness's priority: %w", err)
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && err != unix.ESRCH {
			return fmt.Errorf("raise the harness's priority: %w", err)
		}
	}
	return nil
}

// Where the kernel groups tasks by session (autogroups, sched(7)) nice counts only within a session, and
// the nodes of kind, which Docker's engine starts, are not in ours: the group has the priority then.
const (
	grouped = "/proc/sys/kernel/sched_autogroup_enabled"
	group   = "/proc/self/autogroup"
)

// groupAlone has this program run in a session of its own, where that is a group: what else is in the
// user's session, and stays there, has no part in what is done to it. Programs that cannot be run once
// more stay where they are.
func groupAlone(ctx context.Context) error {
	on, err := os.ReadFile(grouped)
	if err != nil || string(bytes.TrimSpace(on)) == "0" || Self == "" || os.Geteuid() != 0 {
		return nil
	}
	return again.InSession(ctx)
}

// raiseGroup gives the session that this process leads the priority that the process has in it.
func (k *Kind) raiseGroup(context.Context) error {
	if _, err := os.Stat(grouped); err != nil || !again.LeadsSession() {
		return nil
	}
	if err := os.WriteFile(group, strconv.AppendInt(nil, nice, 10), 0); err != nil {
		k.log.Warn("probes may be late", "error", fmt.Errorf("raise the priority of the harness's session: %w", err))
	}
	return nil
}
