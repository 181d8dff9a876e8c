package run

import (
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// Stamps keep their order and their distances, and are those of records.
func TestClock(t *testing.T) {
	var c clock
	start := time.Now()
	last := c.monotonic(start)
	if off := record.Now() - last; off < 0 || off > int64(time.Since(start)+time.Millisecond) { // what has passed since, and what measuring is off
		t.Errorf("a stamp of now is %d ns from now", off)
	}
	for i := range 10_000 {
		measured := c.measured
		at := c.monotonic(start.Add(time.Duration(i+1) * time.Microsecond))
		if at-last != 1000 && c.measured == measured { // it was not measured anew in between
			t.Fatalf("stamp %d is %d ns after the one before, not 1000", i, at-last)
		}
		last = at
	}
}
