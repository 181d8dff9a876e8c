package kit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Hosts outside are lent again, who has rested longest first, to behaviours of the same router and
// family; what is too many is closed, and its number is free.
func TestHostsBeyondAreLent(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	e := &Env{numbers: map[string]int{}, used: map[string]bool{}}
	here, there := &Node{Name: "here"}, &Node{Name: "there"}
	var hosts []*beyond
	for range spares + 1 {
		_, key, ok := e.take("link", links)
		if !ok {
			t.Fatal("no number is free")
		}
		h := &beyond{router: here, family: v4, key: key} // without a namespace: nothing to close
		hosts = append(hosts, h)
		if err := e.giveBack(h); err != nil {
			t.Fatal(err)
		}
	}
	if len(e.used) != spares || e.used[hosts[spares].key] {
		t.Errorf("numbers in use: %v", e.used)
	}
	if h := e.lend(there, v4); h != nil {
		t.Errorf("beyond another node there is %+v", h)
	}
	if h := e.lend(here, v6); h != nil {
		t.Errorf("of the other family there is %+v", h)
	}
	for i := range spares {
		if h := e.lend(here, v4); h != hosts[i] {
			t.Errorf("host %d: %+v", i, h)
		}
	}
	if h := e.lend(here, v4); h != nil {
		t.Errorf("all are lent, and there is %+v", h)
	}
}
