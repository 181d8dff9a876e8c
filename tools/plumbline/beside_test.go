package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/others"
	"github.com/plumbline/plumbline/fixtures/cgroup"
	"github.com/plumbline/plumbline/fixtures/need"
)

// doctor says what is found here, by root: of this namespace, and of this process's cgroup with those above.
func TestBeside(t *testing.T) {
	need.Root(t)
	group, err := cgroup.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	drops, err := others.ForwardDrops(others.Config{})
	if err != nil {
		t.Fatal(err)
	}
	own, above, err := others.AtSockets(group.Path())
	if err != nil {
		t.Fatal(err)
	}
	all := beside()
	if len(all) != 2 {
		t.Fatalf("%d rows", len(all))
	}
	for i, want := range [][]string{drops, append(own, above...)} {
		if b := all[i]; !b.Looked || b.Err != nil || b.None == "" || b.Do == "" {
			t.Errorf("%+v", b)
		} else if diff := cmp.Diff(want, b.Found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", b.Name, diff)
		}
	}
}
