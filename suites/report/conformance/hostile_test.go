package conformance

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/report/render/rendertest"
)

// hostile is the sample with rendertest.Evil text in every string that a dataplane, a cluster
// or an error may put there, however deep: a field that is added is in it too.
func hostile() Report {
	r := sample()
	for i := range r.Tests {
		r.Tests[i].Result = Fail
	}
	poisonReport(&r, rendertest.Worse)
	return r
}

// poisonReport leaves ids apart, and something documented of each test.
func poisonReport(r *Report, text string) {
	rendertest.Poison(reflect.ValueOf(r), text, func(v any) bool { return v == Fail })
	r.Documented = nil
	for i := range r.Tests {
		r.Tests[i].ID += string(rune('a' + i))
		r.Documented = append(r.Documented, Documented{r.Tests[i].ID, text, []string{text}})
	}
}

func TestHTMLIsSelfContained(t *testing.T) {
	b, err := html(Complete(hostile()), func(string, int) ([]byte, int64, error) {
		return []byte(rendertest.Evil), int64(len(rendertest.Evil)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rendertest.SelfContained(t, b, 100)
}

// TestFiltersHide: each box has rows to hide, and each row a box.
func TestFiltersHide(t *testing.T) {
	b, err := html(Complete(sample()), nil)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	if strings.Contains(page, "ZgotmplZ") {
		t.Error("a value was refused by the template")
	}
	boxes := regexp.MustCompile(`id="([rp][-0-9][a-z]*)"`).FindAllStringSubmatch(page, -1)
	if len(boxes) != 5+5 {
		t.Errorf("%d boxes, want one for each of 5 results and 5 profiles: %q", len(boxes), boxes)
	}
	for _, m := range boxes {
		rule, rows := "\n#"+m[1]+":", regexp.MustCompile(`class="(group )?`+m[1]+`"`)
		if !strings.Contains(page, rule) || !rows.MatchString(page) {
			t.Errorf("box %s hides nothing", m[1])
		}
	}
}

// TestMarkdownStaysInItsCells: whatever text is in a table.
func TestMarkdownStaysInItsCells(t *testing.T) {
	rendertest.MarkdownCells(t, MarkdownFile, string(markdown(Complete(hostile()))), 3)
	rendertest.MarkdownCells(t, "matrix", Matrix([]Report{hostile(), sample()}), 3)
}

func TestTerminalIsSafe(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, hostile()); err != nil {
		t.Fatal(err)
	}
	if _, err := CompareTable(&b, hostile(), sample()); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if r != '\n' && !unicode.IsGraphic(r) {
			t.Fatalf("%U reaches the terminal", r)
		}
	}
	if !strings.Contains(b.String(), "<script>") {
		t.Error("the hostile text is not in the table: nothing was tested")
	}
}

func TestJUnitHostile(t *testing.T) {
	r := Complete(hostile())
	b, err := junit(r, func(string, int) ([]byte, int64, error) { return []byte(rendertest.Evil + "]]>"), 3, nil })
	if err != nil {
		t.Fatal(err)
	}
	var got render.Suite
	if err := xml.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Cases) != len(r.Tests) || got.Cases[0].Name != render.Line(r.Tests[0].Key()) {
		t.Errorf("%d cases, the first %q", len(got.Cases), got.Cases[0].Name)
	}
}

// TestHostileRoundTrip: both forms give back what they were given, but for bytes
// that are no text.
func TestHostileRoundTrip(t *testing.T) {
	r := hostile()
	poisonReport(&r, rendertest.Evil+"\u202e: - ? *x &y !!str %\t'\u2028\u0085\u009f\x7f\ufeff\uffff\U0001f600")
	dir := t.TempDir()
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{JSONFile, YAMLFile} {
		got, err := Read(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(Complete(r), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if err := Write(t.TempDir(), hostile()); err != nil {
		t.Errorf("bytes that are no text: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 5 {
		t.Errorf("%v, %v: want five files", entries, err)
	}
}
