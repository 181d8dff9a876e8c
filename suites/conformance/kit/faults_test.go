package kit

import (
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/record"
)

// A run's own limit holds for what a behaviour allows, too, in proportion.
func TestLimit(t *testing.T) {
	for _, c := range []struct{ run, allowed, want time.Duration }{
		{0, 0, Limit},
		{0, time.Second, Limit},
		{0, 4 * Limit, 4 * Limit},
		{Limit / 3, 0, Limit / 3},
		{Limit / 3, 4 * Limit, 4 * Limit / 3},
	} {
		s := &Spec{env: &Env{cfg: Config{Limit: c.run}}}
		s.Allow(c.allowed)
		if got := s.limit(); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("limit of a run with %s where %s are allowed: %s, want %s", c.run, c.allowed, got, c.want)
		}
	}
}

func TestLastAnswer(t *testing.T) {
	since, at := time.Now(), record.Now()
	a, b := Client{Name: "a"}, Client{Name: "b"}
	res := &remote.Results{Attempts: []remote.Result{
		{At: at - int64(time.Hour), Name: "b"}, {At: at + int64(time.Second), Name: "a"}, {At: at + int64(2*time.Second), Name: "c"},
	}}
	got := LastAnswer(res, a, since)
	if off := (got - time.Second).Abs(); off > time.Since(since) { // it may come between two clocks that are read
		t.Errorf("last answer of a: after %s, want 1s", got)
	}
	if got := LastAnswer(res, b, since); got != 0 {
		t.Errorf("last answer of b: after %s, want 0", got)
	}
}
