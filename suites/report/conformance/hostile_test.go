package conformance

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/report/plain"
)

// hostile is the sample with evil text in every string that a dataplane, a cluster
// or an error may put there, however deep: a field that is added is in it too.
func hostile() Report {
	r := sample()
	for i := range r.Tests {
		r.Tests[i].Result = Fail
	}
	poisonReport(&r, evil+"\u202e\xff\x00")
	return r
}

// poisonReport leaves ids apart, and something documented of each test.
func poisonReport(r *Report, text string) {
	poison(reflect.ValueOf(r).Elem(), text)
	r.Documented = nil
	for i := range r.Tests {
		r.Tests[i].ID += string(rune('a' + i))
		r.Documented = append(r.Documented, Documented{r.Tests[i].ID, text, []string{text}})
	}
}

func poison(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				poison(v.Field(i), text)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), text)
		}
	case reflect.String:
		if r := v.Interface(); r == Fail {
			return
		}
		v.SetString(text)
	}
}

func TestHTMLIsSelfContained(t *testing.T) {
	b, err := html(Complete(hostile()), func(string, int) ([]byte, int64, error) { return []byte(evil), int64(len(evil)), nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := references(t, b); got != nil {
		t.Errorf("%s refers to the outside: %q", HTMLFile, got)
	}
	if n := bytes.Count(b, []byte("example.com/x.png")); n < 100 {
		t.Errorf("the hostile text is %d times in the page: too little was tested", n)
	}
	if bytes.ContainsRune(b, '\x1b') || bytes.ContainsRune(b, '\u202e') {
		t.Error("a control character reaches the page")
	}
	for _, text := range []string{
		`<img src="http://example.com/x.png">`, `<a href="http://example.com">x</a>`, `<link href="x.css">`, `<script>x</script>`,
		`<style>@import "x.css";</style>`, `<p style="background: url(x.png)">x</p>`, `<p onclick="x">x</p>`,
	} {
		if got := references(t, bytes.Replace(b, []byte("<body>"), []byte("<body>"+text), 1)); len(got) != 1 {
			t.Errorf("%s: found %q, want one reference", text, got)
		}
	}
}

// references are the places where a page would load, lead to or run something.
func references(t *testing.T, page []byte) []string {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	attribute := regexp.MustCompile(`(?i)^(src|href|srcset|action|formaction|poster|data|background|on.*)$`)
	style := regexp.MustCompile(`(?i)@import|url\s*\(`)
	var found []string
	in := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			in = x.Name.Local
			if in == "script" {
				found = append(found, in)
			}
			for _, a := range x.Attr {
				if attribute.MatchString(a.Name.Local) || style.MatchString(a.Value) {
					found = append(found, in+" "+a.Name.Local+"="+a.Value)
				}
			}
		case xml.CharData:
			if in == "style" && style.Match(x) {
				found = append(found, string(x))
			}
		case xml.EndElement:
			in = ""
		}
	}
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

// TestMarkdownStaysInItsCells: whatever text is in a table, a line of it has as
// many cells as its heading, and nothing is markup.
func TestMarkdownStaysInItsCells(t *testing.T) {
	for name, text := range map[string]string{
		MarkdownFile: string(markdown(Complete(hostile()))), "matrix": Matrix([]Report{hostile(), sample()}),
	} {
		cells, tables := 0, 0
		for line := range strings.Lines(text) {
			if strings.ContainsAny(line, "<>\x1b\u202e\x00") {
				t.Errorf("%s: markup or a control character: %q", name, line)
			}
			if !strings.HasPrefix(line, "|") {
				cells = 0
				continue
			}
			n := strings.Count(strings.ReplaceAll(strings.ReplaceAll(line, `\\`, ""), `\|`, ""), "|")
			if cells == 0 {
				cells = n
				tables++
			}
			if n != cells {
				t.Errorf("%s: %d cells, want %d: %q", name, n, cells, line)
			}
		}
		if tables < 3 {
			t.Errorf("%s: %d tables: too little was tested", name, tables)
		}
	}
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
	b, err := junit(r, func(string, int) ([]byte, int64, error) { return []byte(evil + "]]>"), 3, nil })
	if err != nil {
		t.Fatal(err)
	}
	var got junitSuite
	if err := xml.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Cases) != len(r.Tests) || got.Cases[0].Name != plain.Line(r.Tests[0].Key()) {
		t.Errorf("%d cases, the first %q", len(got.Cases), got.Cases[0].Name)
	}
}

// TestHostileRoundTrip: both forms give back what they were given, but for bytes
// that are no text.
func TestHostileRoundTrip(t *testing.T) {
	r := hostile()
	poisonReport(&r, evil+"\u202e: - ? *x &y !!str %\t'\u2028\u0085\u009f\x7f\ufeff\uffff\U0001f600")
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

// TestMarkdownURLs: a URL stays one, and what marks up elsewhere does not.
func TestMarkdownURLs(t *testing.T) {
	for text, want := range map[string]string{
		"(https://example.com/a_b/c.go#L1-L2, KEP-1)": "(https://example.com/a_b/c.go#L1-L2, KEP-1)",
		"# a": `\# a`, "a # b #": `a \# b \#`, "_a_ b_": `\_a\_ b\_`, "__a": `\_\_a`, "a_b#c": "a_b#c", "(_a_)": `(\_a\_)`,
	} {
		if got := md(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
