package nftables

import (
	"os"
	"strconv"
	"strings"
)

// The least and the most of one transaction that replaces tables.
const (
	leastReplaced = socketBuffer
	mostReplaced  = 64 << 20
)

// memoryPerByte bounds what the kernel takes of memory for a byte of a batch, until it is committed:
// where anybody on the host listens to nftables, in whatever network namespace, it writes a message
// for each element, each in a page of its own, and sends them at the end.
const memoryPerByte = 150

// replaceBuffer is how large the transaction may be that replaces tables: half of the memory
// that there is may be in use for a moment.
func replaceBuffer(meminfo string) int {
	return int(min(max(available(meminfo)/2/memoryPerByte, leastReplaced), mostReplaced))
}

// available is how much memory could be used without swapping, in bytes: proc_meminfo(5).
func available(meminfo string) uint64 {
	_, after, _ := strings.Cut(meminfo, "MemAvailable:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// widenToReplace asks for as much as the memory allows. Without an answer it is the least.
func (c *conn) widenToReplace() error {
	text, _ := os.ReadFile("/proc/meminfo")
	return c.widen(replaceBuffer(string(text)))
}
