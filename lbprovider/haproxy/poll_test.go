package haproxy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What is returned was said in time, though the end of the wait and a try come at once.
func TestPollAsksNothingAfterTheEnd(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			said := errors.New("said in time")
			err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
				if ended(ctx) {
					return false, errors.New("asked too late")
				}
				return false, said
			})
			if !errors.Is(err, said) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		})
	}
}

// What was said last is of before the end: an answer that the end cuts off says nothing.
func TestPollCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said, cut := errors.New("said"), errors.New("cut off")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked := 0
		err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
			if asked++; asked == 1 {
				return false, said
			}
			<-ctx.Done()
			return false, cut
		})
		if !errors.Is(err, said) || errors.Is(err, cut) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the first, and that it was too late", err)
		}
		if err := poll(ctx, 50*time.Millisecond, func() (bool, error) { return false, cut }); !errors.Is(err, cut) {
			t.Errorf("error %v, want the only one", err)
		}
	})
}
