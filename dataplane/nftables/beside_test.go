package nftables

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lib "github.com/google/nftables"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// foreigner commits to tables of its own as fast as it can: in each commit some elements,
// a set and a chain of which some come and some go. It returns the number of commits so far.
func foreigner(t *testing.T, ns *netns.NS, elements int) func() int64 {
	t.Helper()
	c, err := lib.New(lib.WithNetNSFd(ns.FD()), lib.AsLasting())
	if err != nil {
		t.Fatal(err)
	}
	table := c.AddTable(&lib.Table{Family: lib.TableFamilyIPv4, Name: "foreign"})
	set := &lib.Set{Table: table, Name: "s", KeyType: lib.TypeIPAddr}
	if err := c.AddSet(set, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	var some []lib.SetElement
	for i := range elements {
		some = append(some, lib.SetElement{Key: binary.BigEndian.AppendUint32(nil, uint32(i))})
	}
	var commits atomic.Int64
	stop, done := make(chan struct{}), make(chan error, 1)
	commit := func(n int) error {
		name := fmt.Sprint("c", n/2)
		if n%2 == 0 {
			c.AddChain(&lib.Chain{Name: name, Table: table})
			if err := c.SetAddElements(set, some); err != nil {
				return err
			}
			return c.Flush()
		}
		c.DelChain(&lib.Chain{Name: name, Table: table})
		if err := c.SetDeleteElements(set, some); err != nil {
			return err
		}
		return c.Flush()
	}
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- c.CloseLasting()
				return
			default:
			}
			if err := commit(n); err != nil {
				done <- fmt.Errorf("commit %d: %w", n, err)
				return
			}
			commits.Add(1)
		}
	}()
	t.Cleanup(func() {
		close(stop)
		if err := <-done; err != nil {
			t.Error("the foreigner:", err)
		}
	})
	return commits.Load
}

// Restarts succeed, and changes are applied, while somebody else commits to nftables all
// the time: what is not about our tables does not make a dump wrong.
func TestBesideForeignCommits(t *testing.T) {
	for _, elements := range []int{1, 2000} {
		t.Run(fmt.Sprintf("elements=%d", elements), func(t *testing.T) {
			ns := netns.ForTest(t, "beside")
			p := some(2000, 10, 1)
			if err := newTest(t, ns).takeOver(p); err != nil {
				t.Fatal(err)
			}
			commits := foreigner(t, ns, elements)
			for i := range 5 {
				target := newTest(t, ns)
				before, begin := commits(), time.Now()
				if err := target.takeOver(p); err != nil {
					t.Fatalf("restart %d: %v", i, err)
				}
				took, meanwhile := time.Since(begin), commits()-before
				if meanwhile < 3 {
					t.Errorf("restart %d took %s, and nobody committed anything meanwhile: this says nothing", i, took)
				}
				next := some(2000, 10, byte(2+i))
				if err := target.Apply(t.Context(), p, next); err != nil {
					t.Fatalf("change %d: %v", i, err)
				}
				p = next
				out, err := Dump(ns.FD())
				if diff := cmp.Diff(Render(p), out); diff != "" || err != nil {
					t.Fatalf("kernel after change %d (-want +got), %v:\n%s", i, err, diff)
				}
				t.Logf("restart in %s, beside %d foreign commits", took, meanwhile)
			}
		})
	}
}
