package spaces

import (
	"errors"
	"os"
	"testing"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// What runs inside sees the other namespace, and nobody else does afterwards.
func TestDo(t *testing.T) {
	ns := netns.ForTest(t, "inside")
	where := func() (out string) {
		out, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	here, there := where(), ""
	if err := Do(ns.FD(), func() error { there = where(); return nil }); err != nil || there == here {
		t.Errorf("inside it is %s, outside %s, %v", there, here, err)
	}
	for range 100 { // of threads that may have been used again
		if got := where(); got != here {
			t.Fatalf("afterwards outside is %s, want %s", got, here)
		}
	}
	var own string
	if err := Do(0, func() error { own = where(); return nil }); err != nil || own != here {
		t.Errorf("0 is %s, want %s, %v", own, here, err)
	}
	said := errors.New("said")
	if err := Do(ns.FD(), func() error { return said }); !errors.Is(err, said) {
		t.Errorf("error %v, want %v", err, said)
	}
	if err := Do(1<<20, func() error { return nil }); err == nil {
		t.Error("a descriptor that is none is no error")
	}
}
