package stage

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
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
