package kit

import (
	"testing"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Of many datagrams a few may be lost, and what else goes wrong stays.
func TestWithoutLost(t *testing.T) {
	for lost, left := range map[int]int{0: 600, evenLost: 600 - evenLost, evenLost + 1: 600} {
		res := &remote.Results{Attempts: make([]remote.Result, 600)}
		for i := range res.Attempts {
			res.Attempts[i].Class = remote.OK
			if i < lost {
				res.Attempts[i].Class = remote.Timeout
			}
		}
		res.Attempts[599].Class = remote.Reset
		got := withoutLost(res)
		if len(got.Attempts) != left || got.Attempts[left-1].Class != remote.Reset || len(res.Attempts) != 600 {
			t.Errorf("%d of 600 lost: %d are left, want %d", lost, len(got.Attempts), left)
		}
	}
}
