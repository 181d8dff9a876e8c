package teeth

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

// What the mutations ask is asked of the sound dataplane first. Where that fails nothing is judged, and
// the table stays as it is; a mutation has a row for what was seen of it, which says where that is not
// what was declared, and none where the cluster cannot show it.
func TestRun(t *testing.T) {
	const first, second = "clusterip-udp", "clusterip-from-pod"
	all := map[string]mutation{
		sound: {}, "one": {Breaks: "x", Caught: []string{second, first}}, "two": {Breaks: "y", Caught: []string{first}},
	}
	const fail, skip = "fail: x", "skip: x"
	type answers map[string]map[string]string // of mutations, by behaviour: what is not there passes
	both := map[string]string{first: fail, second: fail}
	for _, c := range []struct {
		name    string
		answers answers
		wrong   bool // it judges nothing
		noticed bool
		rows    map[string][]string // notes of rows written anew
		asked   []string
	}{
		{"as declared", answers{"one": both, "two": both}, false, true, map[string][]string{"one": nil, "two": nil}, []string{sound, "one", "two"}},
		{"the sound one fails", answers{sound: {first: fail}, "one": both, "two": both}, true, false, nil, []string{sound}},
		{"the sound one comes to nothing", answers{sound: {alive: "inconclusive: x"}, "one": both, "two": both}, true, false, nil, []string{sound}},
		{"the sound one is skipped", answers{sound: {first: skip}, "one": both, "two": both}, false, true, map[string][]string{"one": nil, "two": nil}, []string{sound, "one", "two"}},
		{"a skip beside a hold", answers{"one": {first: skip}, "two": both}, false, false, map[string][]string{"one": {missed}, "two": nil}, []string{sound, "one", "two"}},
		{"a skip beside a failure", answers{"one": {first: skip, second: fail}, "two": both}, false, true, map[string][]string{"two": nil}, []string{sound, "one", "two"}},
		{"one holds", answers{"one": both}, false, false, map[string][]string{"one": nil, "two": {missed}}, []string{sound, "one", "two"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &judge{Options: Options{Table: filepath.Join(t.TempDir(), tableFile)}, all: all, src: sourcesOf(t)}
			before := map[string]tooth{"one": {breaks: "before", caught: []string{first}, commit: "c", digest: "d"}}
			if err := writeTable(j.Table, j.src, all, before); err != nil {
				t.Fatal(err)
			}
			was := readFile(t, j.Table)
			var got []string
			j.ask = func(_ context.Context, _, name string, list []kit.Behaviour) (map[string]string, error) {
				got = append(got, name)
				compareAsked(t, name, append([]string{alive}, all[name].Caught...), list)
				return c.answers[name], nil
			}
			noticed, err := j.run(t.Context(), []string{"one", "two"})
			if (err != nil) != c.wrong || c.wrong && !strings.Contains(err.Error(), "nothing is judged") || noticed != c.noticed {
				t.Errorf("noticed: %t, %v", noticed, err)
			}
			if diff := cmp.Diff(c.asked, got); diff != "" {
				t.Errorf("mutations that were tried (-want +got):\n%s", diff)
			}
			if c.wrong && readFile(t, j.Table) != was {
				t.Errorf("nothing was judged, and the table has become\n%s", readFile(t, j.Table))
			}
			rows, err := readRows(j.Table)
			if err != nil {
				t.Fatal(err)
			}
			for name := range all {
				notes, anew := c.rows[name]
				r, there := rows[name]
				if anew != (there && r.breaks != "before") || anew && !slices.Equal(r.notes, notes) {
					t.Errorf("the row of %s: %+v, want notes %q of one that is new: %t", name, r, notes, anew)
				}
			}
		})
	}
}

// Mutations of another dataplane come after the sound one of it, and what is to hold of each is asked beside
// what it declares: where that fails too, nothing is said of the mutation.
func TestRunByDataplane(t *testing.T) {
	const caught, holds = "clusterip-udp", "clusterip-hairpin"
	all := map[string]mutation{
		sound: {}, "a": {Breaks: "x", Caught: []string{caught}, Dataplane: "plumb-ebpf"}, "b": {Breaks: "x", Caught: []string{caught}},
		"c": {Breaks: "x", Caught: []string{alive, caught}, Dataplane: "plumb-ebpf", Holds: holds},
	}
	for _, dead := range []bool{false, true} {
		j := &judge{all: all}
		var got []string
		j.ask = func(_ context.Context, dataplane, name string, list []kit.Behaviour) (map[string]string, error) {
			line := dataplane + " " + name + ":"
			for _, b := range list {
				line += " " + b.ID
			}
			got = append(got, line)
			if name == sound {
				return nil, nil
			}
			reasons := map[string]string{caught: "fail: x"}
			if name == "c" {
				reasons[alive] = "fail: x"
			}
			if dead {
				reasons[holds] = "fail: x"
			}
			return reasons, nil
		}
		noticed, err := j.run(t.Context(), []string{"a", "b", "c"})
		if err != nil || noticed == dead {
			t.Errorf("noticed: %t, %v, where nothing works: %t", noticed, err, dead)
		}
		want := []string{
			"plumb-ebpf none: clusterip-from-host-of-other-node clusterip-hairpin clusterip-udp",
			"plumb-ebpf a: clusterip-from-host-of-other-node clusterip-udp",
			"plumb-ebpf c: clusterip-from-host-of-other-node clusterip-hairpin clusterip-udp",
			"plumb-nftables none: clusterip-from-host-of-other-node clusterip-udp",
			"plumb-nftables b: clusterip-from-host-of-other-node clusterip-udp",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what was asked (-want +got):\n%s", diff)
		}
	}
}

// A declaration names another dataplane of our own, or none, and what is to hold is not what is to fail.
func TestCheck(t *testing.T) {
	needs := map[string][]kit.Need{alive: nil, "x": nil, "y": nil, "both": {kit.NeedDual}}
	for _, c := range []struct {
		m     mutation
		wrong int
	}{
		{mutation{}, 0},
		{mutation{Dataplane: "plumb-ebpf", Holds: "y"}, 0},
		{mutation{Dataplane: "plumb-ebpf", Holds: "x"}, 1},
		{mutation{Holds: alive}, 1},
		{mutation{Holds: "z"}, 1},
		{mutation{Holds: "both"}, 1},
		{mutation{Dataplane: "plumb-nftables"}, 1},
		{mutation{Dataplane: "kube-proxy:nftables"}, 1},
		{mutation{Dataplane: "plumb-none"}, 1},
	} {
		c.m.Breaks, c.m.Caught = "x", []string{"x"}
		if got := c.m.check(needs); len(got) != c.wrong {
			t.Errorf("%+v: %q, want %d", c.m, got, c.wrong)
		}
	}
}

// compareAsked wants behaviours to be those that are named; of the sound dataplane, that are named by any.
func compareAsked(t *testing.T, name string, want []string, list []kit.Behaviour) {
	t.Helper()
	if name == sound {
		want = []string{alive, "clusterip-from-pod", "clusterip-udp"}
	}
	var got []string
	for _, b := range list {
		got = append(got, b.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("asked with %s (-want +got):\n%s", name, diff)
	}
}
