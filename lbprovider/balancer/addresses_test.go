package balancer

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// asked is Docker that answers when it is let.
type asked struct {
	Instances
	came, answer chan struct{}
}

func (a *asked) Taken(ctx context.Context) (map[netip.Addr]string, error) {
	a.came <- struct{}{}
	<-a.answer
	return a.Instances.Taken(ctx)
}

// A load balancer waits for no other's question to Docker, and two that asked at once, before
// either of them had an address, do not get the same one.
func TestPoolIsNotLockedWhileDockerIsAsked(t *testing.T) {
	docker := &asked{newContainers(), make(chan struct{}), make(chan struct{})}
	p := newPool(docker, map[lbplan.Family]netip.Prefix{lbplan.V4: netip.MustParsePrefix("127.77.0.0/30")})
	type result struct {
		addrs []netip.Addr
		err   error
	}
	got := make(chan result)
	names := []string{"one", "two"}
	for _, name := range names {
		go func() {
			addrs, err := p.reserve(t.Context(), name, "the same", lbplan.LB{Families: []lbplan.Family{lbplan.V4}}, nil, nil)
			got <- result{addrs, err}
		}()
	}
	for range names { // both are asking
		select {
		case <-docker.came:
		case <-time.After(patience):
			t.Fatal("one waits for the other's question")
		}
	}
	p.keep(nil, []claim{{"three", []netip.Addr{netip.MustParseAddr("192.0.2.1")}}})
	if len(p.of("three")) != 1 {
		t.Error("nothing is kept while Docker is asked")
	}
	var all []netip.Addr
	for range names {
		docker.answer <- struct{}{}
	}
	for range names {
		r := <-got
		if r.err != nil {
			t.Fatal(r.err)
		}
		all = append(all, r.addrs...)
	}
	if len(all) != 2 || all[0] == all[1] || !slices.Contains(p.of("one"), all[0]) && !slices.Contains(p.of("two"), all[0]) {
		t.Errorf("addresses %v", all)
	}
}
