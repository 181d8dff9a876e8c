package teeth

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
)

var update = flag.Bool("update", false, "mark the rows of "+tableFile+" that are older than what they are about")

// What is declared is possible, and is what was seen where it was judged.
func TestTeethDeclared(t *testing.T) {
	all, err := declaredMutations()
	if err != nil {
		t.Fatal(err)
	}
	needs := map[string][]kit.Need{}
	for _, b := range behaviours.Catalogue() {
		needs[b.ID] = b.Needs
	}
	noticed := map[string]bool{}
	for name, m := range all {
		if name == sound {
			continue
		}
		for _, wrong := range m.check(needs) {
			t.Errorf("mutation %s: %s", name, wrong)
		}
		for _, id := range m.Caught {
			noticed[id] = true
		}
	}
	if len(all[sound].Caught) > 0 {
		t.Errorf("with mutation %s nothing may fail", sound)
	}
	for _, wrong := range undeclaredWrong(noticed, readFile(t, undeclaredFile), undeclaredCount) {
		t.Error(wrong)
	}
}

// undeclaredFile lists the behaviours that no mutation declares, and why: a line "id: reason" each.
const undeclaredFile = "undeclared.txt"

// undeclaredCount is how many it lists. It is only to become smaller.
const undeclaredCount = 1

// undeclaredWrong says in what the list is not that of the behaviours that are in no declaration, count of
// them.
func undeclaredWrong(noticed map[string]bool, list string, count int) (wrong []string) {
	if n := strings.Count(list, "\n"); n > count {
		wrong = append(wrong, fmt.Sprintf("%s has %d lines, and may have %d: a new behaviour needs a mutation that it notices", undeclaredFile, n, count))
	} else if n < count {
		wrong = append(wrong, fmt.Sprintf("%s has %d lines: undeclaredCount is %d, and is to become %d", undeclaredFile, n, count, n))
	}
	listed := map[string]bool{}
	for line := range strings.Lines(list) {
		id, why, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		listed[id] = true
		if noticed[id] || why == "" {
			wrong = append(wrong, undeclaredFile+": "+id+": a mutation declares it, or it is not said why none does")
		}
	}
	for _, b := range behaviours.Catalogue() {
		if !noticed[b.ID] && !listed[b.ID] {
			wrong = append(wrong, "no mutation is declared that "+b.ID+" notices: nothing shows that it can fail")
		}
		delete(listed, b.ID)
	}
	for id := range listed {
		wrong = append(wrong, undeclaredFile+": there is no behaviour "+id)
	}
	return wrong
}

// Each line that should not be there is found, and each that is missing.
func TestUndeclared(t *testing.T) {
	all := map[string]bool{}
	for _, b := range behaviours.Catalogue() {
		all[b.ID] = true
	}
	but := maps.Clone(all)
	delete(but, "clusterip-udp")
	for _, c := range []struct {
		name, list string
		noticed    map[string]bool
		count      int
		wrong      int
	}{
		{"all declared", "", all, 0, 0},
		{"one missing", "", but, 0, 1},
		{"said why", "clusterip-udp: because\n", but, 1, 0},
		{"not said why", "clusterip-udp\n", but, 1, 1},
		{"declared all the same", "clusterip-udp: because\n", all, 1, 1},
		{"no behaviour", "of-before: because\n", all, 1, 1},
		{"longer than before", "clusterip-udp: because\n", but, 0, 1},
		{"shorter than before", "clusterip-udp: because\n", but, 2, 1},
	} {
		if got := undeclaredWrong(c.noticed, c.list, c.count); len(got) != c.wrong {
			t.Errorf("%s: %q, want %d", c.name, got, c.wrong)
		}
	}
}

// The table is what writeTable makes of its rows: what is older is marked, and what is
// not, and is not noted otherwise, is what was declared.
func TestTeethTable(t *testing.T) {
	all, err := declaredMutations()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range rows {
		held := slices.DeleteFunc(slices.Clone(all[name].Caught), func(id string) bool { return slices.Contains(r.caught, id) })
		if !slices.Contains(r.notes, missed) && !slices.Contains(r.notes, older) && (len(held) > 0 || r.breaks != all[name].says()) {
			t.Errorf("mutation %s was caught by %q, and not by %q as declared", name, r.caught, held)
		}
	}
	src := sourcesOf(t)
	made := filepath.Join(t.TempDir(), tableFile)
	if *update {
		made = tableFile
	}
	if err := writeTable(made, src, all, rows); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(readFile(t, made), readFile(t, tableFile)); diff != "" {
		t.Errorf("%s is not up to date; go test ./suites/conformance/teeth -update (-want +got):\n%s", tableFile, diff)
	}
}

// A row stays when what it is about changes, and says so.
func TestTeethTableKeepsRows(t *testing.T) {
	m := mutation{Breaks: "x", Caught: []string{"clusterip-from-pod"}}
	all := map[string]mutation{sound: {}, "kept": m, "edited": m, "edited-back": m, "dirty": m, "never": m}
	path := filepath.Join(t.TempDir(), tableFile)
	src := sourcesOf(t)
	digest := map[string]string{}
	for name := range all {
		var err error
		if digest[name], err = src.digest(name, m); err != nil {
			t.Fatal(err)
		}
	}
	rows := map[string]tooth{
		"edited-back":      {breaks: m.Breaks, caught: m.Caught, commit: "c", digest: digest["edited-back"], notes: []string{older, dirty}},
		"kept":             judged(m, digest["kept"], m.Caught),
		"edited":           judged(m, "of-before", m.Caught, missed),
		"dirty":            {breaks: m.Breaks, caught: m.Caught, commit: "c-dirty", digest: digest["dirty"]},
		"declared-no-more": judged(m, digest["kept"], m.Caught),
	}
	for range 2 { // once more with what was read
		if err := writeTable(path, src, all, rows); err != nil {
			t.Fatal(err)
		}
		var err error
		if rows, err = readRows(path); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows["edited"].notes; !slices.Equal(got, []string{missed, older}) || !slices.Equal(rows["dirty"].notes, []string{dirty}) || len(rows["kept"].notes)+len(rows["edited-back"].notes) > 0 || len(rows) != 4 {
		t.Errorf("rows %+v", rows)
	}
	if text := readFile(t, path); !strings.Contains(text, "4 of 5 declared mutations") || !strings.Contains(text, ", and 1 are of a dirty tree") {
		t.Errorf("its head:\n%s", text)
	}
	stands, err := standing(path, src, all)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"kept": true, "edited-back": true, "edited": false, "dirty": false}, stands); diff != "" {
		t.Errorf("rows that stand (-want +got):\n%s", diff)
	}
}

// What is declared and holds is wrong, and so is all that fails with the sound dataplane, what comes to
// no result, and that nothing at all works; that others notice too is told, and no more.
func TestCompareTeeth(t *testing.T) {
	const held, failing = "clusterip-udp", "clusterip-from-pod"
	for _, c := range []struct {
		name        string
		declared    []string
		reasons     map[string]string
		wrong, more int
		lacks       bool
	}{
		{"noticed", []string{failing}, map[string]string{failing: "fail: x"}, 0, 0, false},
		{"one holds", []string{failing, held}, map[string]string{failing: "fail: x"}, 1, 0, false},
		{"one is inconclusive", []string{failing}, map[string]string{failing: "inconclusive: x"}, 1, 0, false},
		{"another notices", []string{failing}, map[string]string{failing: "fail: x", held: "fail: y"}, 0, 1, false},
		{"another is inconclusive", []string{failing}, map[string]string{failing: "fail: x", held: "inconclusive: y"}, 1, 0, false},
		{"another is skipped", []string{failing}, map[string]string{failing: "fail: x", held: "skip: y"}, 0, 0, false},
		{"nothing works", []string{failing}, map[string]string{failing: "fail: x", alive: "fail: y"}, 1, 0, false},
		{"alive is declared", []string{alive}, map[string]string{alive: "fail: y"}, 0, 0, false},
		{"the sound one fails", nil, map[string]string{failing: "fail: x"}, 1, 0, false},
		{"the cluster lacks it", []string{failing}, map[string]string{failing: "skip: x"}, 1, 0, true},
	} {
		wrong, more := compareTeeth(mutation{Caught: c.declared}, c.reasons)
		if strings.Count(wrong, "\n") != c.wrong || strings.Count(more, "\n") != c.more || (skipped(c.declared, c.reasons) != "") != c.lacks {
			t.Errorf("%s: wrong %q, more %q", c.name, wrong, more)
		}
	}
}

func sourcesOf(t *testing.T) *sources {
	t.Helper()
	src, err := readSources("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
