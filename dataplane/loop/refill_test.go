package loop

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Each family of a Service that has lost its last endpoint is waited for, whichever went first,
// and none that has one or had none.
func TestRefillByFamily(t *testing.T) {
	v4, v6, both := svc(1), svc(1), svc(1)
	v6.Service.ClusterIPs = []netip.Addr{netip.MustParseAddr("fd00:96::1")}
	both.Service.ClusterIPs = append(both.Service.ClusterIPs, v6.Service.ClusterIPs...)
	fill4, fill6 := slice(1, true), slice(1, true)
	fill6.Slice.Name.Name, fill6.Slice.Endpoints[0].Addr = "1-6", netip.MustParseAddr("fd00::1")
	other6 := slice(1, false)
	other6.Slice.Name.Name, other6.Slice.Endpoints[0].Addr = "1-6", netip.MustParseAddr("fd00::1")
	const half = time.Millisecond / 2
	type step struct {
		at   int // halves of a millisecond
		what objects.Change
	}
	for name, c := range map[string]struct {
		service objects.Change
		steps   []step
		rounds  string // when
	}{
		"IPv4 alone":              {v4, []step{{0, gone(fill4)}, {2, fill4}}, "1ms"},
		"IPv6 alone":              {v6, []step{{0, gone(fill6)}, {2, fill6}}, "1ms"},
		"IPv4 of both":            {both, []step{{0, gone(fill4)}, {2, fill4}}, "1ms"},
		"IPv6 of both":            {both, []step{{0, gone(fill6)}, {2, fill6}}, "1ms"},
		"both, IPv4 first":        {both, []step{{0, gone(fill4)}, {2, gone(fill6)}, {4, fill6}, {5, fill4}}, "2.5ms"},
		"both, IPv6 first":        {both, []step{{0, gone(fill6)}, {2, gone(fill4)}, {4, fill4}, {5, fill6}}, "2.5ms"},
		"one, and the other not":  {both, []step{{0, gone(fill4)}, {2, other6}, {4, fill4}}, "2ms"},
		"for good":                {both, []step{{0, gone(fill4)}}, "3ms"},
		"for good, and the other": {both, []step{{0, gone(fill4)}, {20, gone(fill6)}, {22, fill6}}, "3ms 11ms"},
		"one that it had not":     {v4, []step{{0, gone(fill6)}}, "0s"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *Loop, w *world) {
				l.Handle([]objects.Change{node(), c.service, fill4, fill6})
				synctest.Wait()
				w.take()
				now := 0
				for _, s := range c.steps {
					time.Sleep(time.Duration(s.at-now) * half)
					now = s.at
					l.Handle([]objects.Change{s.what})
				}
				time.Sleep(time.Second)
				var rounds []string
				for line := range strings.Lines(w.take()) {
					rounds = append(rounds, strings.Fields(line)[0])
				}
				if diff := cmp.Diff(c.rounds, strings.Join(rounds, " ")); diff != "" {
					t.Errorf("rounds (-want +got):\n%s", diff)
				}
			})
		})
	}
}
