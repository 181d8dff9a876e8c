package lbprovider

import (
	"testing"
	"time"
)

func TestSeenRows(t *testing.T) {
	var s seenRows
	start := time.Unix(0, 0)
	for _, c := range []struct {
		row   string
		after time.Duration
		want  bool
	}{
		{"a", 0, true},
		{"a", time.Millisecond, false},
		{"b", seenFor, true},
		{"a", seenFor + 1, false}, // still remembered
		{"c", 2*seenFor + 2, true},
		{"b", 2*seenFor + 3, true}, // forgotten: no row is copied that late
	} {
		if got := s.add(c.row, start.Add(c.after)); got != c.want {
			t.Errorf("%q after %s: new is %t, want %t", c.row, c.after, got, c.want)
		}
	}
}
