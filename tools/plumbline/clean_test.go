package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// Namespaces of tests that go on, as this one, are left alone by clean, which says so.
func TestCleanLeavesTests(t *testing.T) {
	netns.ForTest(t, "left")
	var said strings.Builder
	ids, err := leave(&said, nil)
	id := fmt.Sprintf("t%d", os.Getpid())
	if err != nil || !slices.Contains(ids, id) || !strings.Contains(said.String(), "tests go on (plumb-"+id+"-...)") {
		t.Errorf("leaves %v, %v, and says %q", ids, err, said.String())
	}
}
