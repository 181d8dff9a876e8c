package iptables_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// While one Service changes an endpoint, one loses and gets all of its own, and
// Targets are restarted, no connection to the first fails, those to the second are
// made or refused, and no packet of either leaves the node as nobody's:
//
//	clients on the node -> 10.96.0.0:80 -> 192.0.2.1-3:8000
//	                    -> 10.96.0.1:80 -> 192.0.2.1:8000, or refused
func TestChurnLosesNothing(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		ns := netns.ForTest(t, "churn")
		for i := range 3 {
			run(t, ns, "ip", "addr", "add", fmt.Sprintf("192.0.2.%d/32", i+1), "dev", "lo")
		}
		run(t, ns, "ip", "route", "add", "default", "dev", "lo")
		ipt := "iptables-" + string(f)
		run(t, ns, ipt, "-t", "mangle", "-A", "POSTROUTING", "-d", "10.96.0.0/16") // counts what gets through
		serve(t, ns)

		target, p := newTarget(t, ns, f), churned(0)
		apply(t, target, nil, p)
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		var made, refused atomic.Int64
		for i := range 4 {
			clients.Go(func() {
				for ctx.Err() == nil {
					err := ns.Do(func() error { return dial(ctx, key(i%2)) })
					switch {
					case err == nil:
						made.Add(1)
					case i%2 == 1 && errors.Is(err, syscall.ECONNREFUSED):
						refused.Add(1)
					case ctx.Err() == nil:
						t.Errorf("connect to Service %d: %v", i%2, err)
					}
				}
			})
		}
		for i := range 60 {
			next := churned(i + 1)
			if i%10 == 9 {
				target = newTarget(t, ns, f)
				apply(t, target, nil, next)
			} else {
				apply(t, target, p, next)
			}
			p = next
		}
		cancel()
		clients.Wait()
		if made.Load() < 100 || refused.Load() < 10 {
			t.Errorf("%d connections made, %d refused: too few to show anything", made.Load(), refused.Load())
		}
		t.Logf("%d connections made, %d refused", made.Load(), refused.Load())
		if through := run(t, ns, ipt+"-save", "-c", "-t", "mangle"); !strings.Contains(through, "[0:0] -A POSTROUTING -d 10.96.0.0/16") {
			t.Errorf("packets got through to nobody's address:\n%s", through)
		}
	})
}

// churned is the plan at a step.
func churned(i int) *plan.Plan {
	at := func(k int) plan.Endpoint {
		return plan.Endpoint{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(k)}), Port: 8000, Local: true}
	}
	steady, flips := service(0, 0), service(1, 0)
	steady.Frontends[0].Outside.Endpoints = []plan.Endpoint{at(1), at(2 + i%2)}
	flips.Frontends[0].Outside.Endpoints = []plan.Endpoint{at(1)}
	if i%2 == 1 {
		flips.Frontends[0].Outside = plan.Route{Action: plan.Reject}
	}
	return with(with(many(0, 0), 0, steady), 1, flips)
}

func serve(t *testing.T, ns *netns.NS) {
	t.Helper()
	var l net.Listener
	if err := ns.Do(func() (err error) {
		l, err = net.Listen("tcp4", "0.0.0.0:8000")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("x"))
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
}

// dial makes a connection, reads what the server sends and closes.
func dial(ctx context.Context, to plan.Key) error {
	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "tcp4", netip.AddrPortFrom(to.Addr, to.Port).String())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	return err
}
