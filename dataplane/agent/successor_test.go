package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// leftovers are what backends left on a node, and faults.
type leftovers struct {
	left                bool
	look, clean, forget int // so many fail
	stays               bool
	only                bool // to be named, not to be taken away
	sockets             bool // who comes has programs there
	begin               time.Time
	did                 []string
}

var errFault = errors.New("fault")

func (n *leftovers) note(what string) {
	at := time.Since(n.begin)
	n.did = append(n.did, fmt.Sprintf("%s %s", at, what))
}

func fault(n *int) error {
	if *n--; *n >= 0 {
		return errFault
	}
	return nil
}

// target asks for the others in the middle of a change, or does not.
type target struct {
	asks func() func()
	err  error
}

func (t *target) Apply(_ context.Context, old, _ *plan.Plan) error {
	if t.asks != nil && old == nil {
		if take := t.asks(); take != nil {
			take()
		}
	}
	return t.err
}

// What cannot be told, taken away or forgotten fails no change, is told once, and is tried
// again, less and less often; what is done is not done again.
func TestSuccessor(t *testing.T) {
	keeper := map[bool]backend.Keeper{true: backend.Conntrack, false: backend.Process}
	for _, c := range []struct {
		name       string
		node       leftovers
		own, other bool // they translate by conntrack
		asks       bool
		want       []string
	}{
		{"nothing left", leftovers{}, true, true, false, []string{"0s look"}},
		{"nothing left, for who does not translate", leftovers{}, false, true, true, []string{"0s look", "0s forget"}},
		{"left by one of the same way", leftovers{left: true}, true, true, false, []string{"0s look", "0s clean"}},
		{"left by one of the other way", leftovers{left: true}, true, false, false, []string{"0s look", "0s clean", "0s forget"}},
		{"left, asked for in the middle", leftovers{left: true}, false, true, true, []string{"0s look", "0s clean", "0s forget"}},
		{"it cannot be told", leftovers{look: 3}, true, true, false, []string{
			"0s look", "0s tell look for what other left: fault", "1s look", "2s look", "4s look",
		}},
		{"it cannot be taken away", leftovers{left: true, clean: 2}, true, true, false, []string{
			"0s look", "0s clean", "0s tell take away what other left: fault", "1s look", "1s clean", "2s look", "2s clean",
		}},
		{"nor in the middle", leftovers{left: true, clean: 1}, false, true, true, []string{
			"0s look", "0s clean", "0s forget", "0s tell take away what other left: fault", "1s look", "1s clean", "1s forget",
		}},
		{"it stays whoever tries", leftovers{left: true, stays: true}, true, true, false, []string{
			"0s look", "0s clean", "0s tell of what other left on this node is not taken away: a chain stays", "0s look",
			"1m0s look", "1m0s clean", "1m0s look",
		}},
		{"nor in the middle is it tried again", leftovers{left: true, stays: true}, false, true, true, []string{
			"0s look", "0s clean", "0s tell of what other left on this node is not taken away: a chain stays", "0s look", "0s forget",
			"1m0s look", "1m0s clean", "1m0s look",
		}},
		{"it is to stay", leftovers{left: true, only: true}, true, true, false, []string{
			"0s look", "0s tell other is on this node too, with a table, and is not to be taken away; give the node to one of the two (--take-over)",
			"1m0s look",
		}},
		{"it is to stay, and cannot be told", leftovers{left: true, only: true, look: 1}, true, true, false, []string{
			"0s look", "0s tell whether other is on this node too cannot be told: fault",
			"1m0s look", "1m0s tell other is on this node too, with a table, and is not to be taken away; give the node to one of the two (--take-over)",
		}},
		{"it cannot be forgotten", leftovers{left: true, forget: 4}, true, false, false, []string{
			"0s look", "0s clean", "0s forget", "0s tell take the place of another proxy: fault", "1s forget", "2s forget", "4s forget", "8s forget",
		}},
		{"left, for who is at sockets", leftovers{left: true, sockets: true}, false, true, false, []string{
			"0s look", "1s look", "1s clean", "1s forget",
		}},
		{"nothing left, for who is at sockets", leftovers{sockets: true}, false, true, false, []string{"0s look", "0s forget"}},
		{"it cannot be taken away, for who is at sockets", leftovers{left: true, clean: 1, sockets: true}, false, true, false, []string{
			"0s look", "1s look", "1s clean", "1s forget", "1s tell take away what other left: fault", "2s look", "2s clean", "2s forget",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := c.node
				n.begin = time.Now()
				var told []string
				other := backend.Backend{
					Keeps: keeper[c.other],
					Left: func() ([]string, error) {
						n.note("look")
						if err := fault(&n.look); err != nil || !n.left {
							return nil, err
						}
						return []string{"a table"}, nil
					},
					Clean: func() error {
						n.note("clean")
						if n.stays {
							return &backend.Stays{What: []string{"a chain stays"}}
						}
						err := fault(&n.clean)
						n.left = err != nil
						return err
					},
				}
				if n.only {
					other.Clean = nil
				}
				s := newSuccessor(&Config{
					Backend: backend.Backend{Keeps: keeper[c.own], Sockets: n.sockets}, Logger: slog.New(slog.DiscardHandler),
					Others: map[string]backend.Backend{"other": other}, Own: backend.Options{Cgroup: "/sys/fs/cgroup"},
				}, func(reason, text string) { n.note("tell " + text); told = append(told, reason) })
				s.forget = func(context.Context, *plan.Plan) error {
					n.note("forget")
					return fault(&n.forget)
				}
				kernel := &target{err: &plan.Refused{}}
				if c.asks {
					kernel.asks = s.find
				}
				lost := make(chan bool, 1)
				s.again = func() { lost <- true }
				defer s.stop()
				apply := func(old *plan.Plan) {
					err := inTurn{kernel, s}.Apply(t.Context(), old, &plan.Plan{})
					if refused := new(plan.Refused); err != nil && !errors.As(err, &refused) {
						t.Errorf("the change failed: %v", err)
					}
				}
				apply(nil)
				for end := time.After(time.Minute); ; {
					apply(&plan.Plan{})
					select {
					case <-lost:
						apply(nil)
						continue
					case <-end:
					}
					break
				}
				apply(nil)
				if diff := cmp.Diff(c.want, n.did); diff != "" {
					t.Errorf("did (-want +got):\n%s", diff)
				}
				if slices.ContainsFunc(told, func(reason string) bool { return reason != "LeftByAnotherProxy" }) {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

// What is to stay is named, once, and so is what is found of it later.
func TestSuccessorNames(t *testing.T) {
	var told []string
	left := []string{"table ip kube-proxy"}
	s := newSuccessor(&Config{
		Backend: backend.Backend{Keeps: backend.Conntrack}, Logger: slog.New(slog.DiscardHandler),
		Others: map[string]backend.Backend{"kube-proxy": {Left: func() ([]string, error) { return left, nil }}},
	}, func(reason, text string) { told = append(told, reason+": "+text) })
	for i := range 4 {
		if i == 2 {
			left = append(left, "table ip6 kube-proxy")
		}
		if err := (inTurn{&target{}, s}).Apply(t.Context(), nil, &plan.Plan{}); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"LeftByAnotherProxy: kube-proxy is on this node too, with table ip kube-proxy, and is not to be taken away; give the node to one of the two (--take-over)",
		"LeftByAnotherProxy: kube-proxy is on this node too, with table ip kube-proxy, table ip6 kube-proxy, and is not to be taken away; give the node to one of the two (--take-over)",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// A change that failed takes nothing away.
func TestSuccessorWaits(t *testing.T) {
	s := newSuccessor(&Config{Backend: backend.Backend{Keeps: backend.Process}}, nil)
	s.forget = func(context.Context, *plan.Plan) error { t.Error("forgotten before the rules are in"); return nil }
	if err := (inTurn{&target{err: errFault}, s}).Apply(t.Context(), nil, &plan.Plan{}); !errors.Is(err, errFault) || s.looked {
		t.Errorf("%v, looked %t", err, s.looked)
	}
}
