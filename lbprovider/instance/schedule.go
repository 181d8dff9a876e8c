package instance

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// comeFirst has a process, and what it starts from now on, run before all that is not of real time, the
// lowest priority of which is enough: a cloud's load balancer has processors of its own, so what it waits
// for ours is nobody's loss. A session of its own is a group of its own to the scheduler (autogroups,
// sched(7)), within which alone the provider's nice would count. Not being allowed costs only punctuality.
func comeFirst(pid int) {
	_ = unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
}

// deferred is the nice value of a process that nobody looks after: a tenth of what another gets.
const deferred = 10

// comeLater is for one whose provider ends, and that looks for it without a pause from then on (haproxy, No
// provider): with its priority a host of two processors would do nothing else. One that did not come first
// might not be let come back. It tells whether the process, and what it starts from now on, came first
// until now and does no longer.
func comeLater(pid int) (changed bool) {
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil || attr.Policy != unix.SCHED_RR {
		return false
	}
	if unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: deferred}, 0) != nil {
		return false
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), fmt.Append(nil, deferred), 0) // where there are any
	return true
}
