//go:build linux

package dptest

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// On a slow host fewer Services are used side by side, each for as long; one
// where no two uses are within the timeout is said to be too slow.
func TestKeepUsingOnSlowHosts(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		err   string
	}{
		{takes: time.Millisecond},
		{takes: 100 * time.Millisecond},
		{takes: 450 * time.Millisecond},
		{takes: time.Second, err: "too slow"},
	} {
		t.Run(c.takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, rows := expiryPlan()
				last, err := keepUsing(rows, func(r Row) (netip.AddrPort, error) {
					time.Sleep(c.takes)
					return r.To, nil
				})
				if c.err != "" {
					if err == nil || !strings.Contains(err.Error(), c.err) {
						t.Errorf("error %v, want %s", err, c.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for i, u := range last {
					if !u.enough() || u.at != rows[i].To {
						t.Errorf("%s: %+v", rows[i].Line, u)
					}
				}
			})
		})
	}
}
