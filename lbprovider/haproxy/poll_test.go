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
