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

// What lies in a pile stays where it is, however much is added, and in its order.
func TestPile(t *testing.T) {
	var p pile
	p.add(record.Packet{At: 1})
	first := &p.pieces[0][0]
	const n = 3*piece + 5
	for at := int64(2); at <= n; at++ {
		p.add(record.Packet{At: at})
	}
	if first != &p.pieces[0][0] || len(p.pieces) != 4 || p.n != n {
		t.Errorf("%d packets lie in %d pieces (n %d), the first one moved: %t", n, len(p.pieces), p.n, first != &p.pieces[0][0])
	}
	at := int64(0)
	for _, piece := range p.pieces {
		for _, one := range piece {
			if at++; one.At != at {
				t.Fatalf("packet %d of %d is where %d should be", one.At, n, at)
			}
		}
	}
	if at != n {
		t.Errorf("%d of %d packets are there", at, n)
	}
}
