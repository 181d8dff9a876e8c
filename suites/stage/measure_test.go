package stage

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// What waiting for a quiet host took once is not there the next time.
func TestPatienceIsForAllOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &base{opts: Options{AwaitQuiet: time.Minute}, log: slog.New(slog.DiscardHandler)}
		for range 2 {
			before, begun := b.opts.AwaitQuiet, time.Now()
			if err := b.AwaitQuiet(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took == 0 || b.opts.AwaitQuiet != before-took {
				t.Errorf("it took %s; %s are left of %s", took, b.opts.AwaitQuiet, before)
			}
		}
	})
}
