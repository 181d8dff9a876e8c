package spaces

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// everywhere asks on as many threads as there may be.
func everywhere(where func() string) map[string]int {
	var mu sync.Mutex
	out := map[string]int{}
	var all sync.WaitGroup
	asked := make(chan bool)
	for range 100 {
		all.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			at := where()
			mu.Lock()
			out[at]++
			mu.Unlock()
			all.Done()
			<-asked // no other gets this thread
		}()
	}
	all.Wait()
	close(asked)
	return out
}

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
	for range 50 { // on whatever threads there are, the first among them
		if err := Do(ns.FD(), func() error { return nil }); err != nil {
			t.Error(err)
		}
	}
	ends := func() error { runtime.Goexit(); return nil }
	if err := Do(ns.FD(), ends); err == nil {
		t.Error("a function that ended its goroutine is no error")
	}
	if got := everywhere(where); len(got) != 1 || got[here] == 0 {
		t.Errorf("afterwards the threads are in %v, want %s", got, here)
	}
	if got, err := os.Readlink("/proc/self/ns/net"); got != here || err != nil { // of the first thread
		t.Errorf("afterwards the process is in %s, want %s, %v", got, here, err)
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
