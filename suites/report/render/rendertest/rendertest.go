// Package rendertest is for tests of reports: text that does harm where it is not escaped,
// and what a page would load.
package rendertest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Evil is what a name or a reason may hold once it is text in a report.
const Evil = "x\"'></pre></style><script>alert(1)</script>|`*\x1b[31m\n# y: {z}\n| a | b \\| c\n<img src=http://example.com/x.png>"

// Worse is Evil with what is no text, or turns text round.
const Worse = Evil + "\u202e\xff\x00"

// Poison sets every string below v, but those that keep says are to stay. Keys of maps must be
// such.
func Poison(v reflect.Value, text string, keep func(v any) bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			Poison(v.Elem(), text, keep)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				Poison(v.Field(i), text, keep)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			Poison(v.Index(i), text, keep)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if k.Kind() == reflect.String && keep(k.Interface()) {
				continue
			}
			panic(fmt.Sprintf("poison a %s: maps are left as they are, so their keys are to be the harness's own words", v.Type()))
		}
	case reflect.Array, reflect.Interface:
		panic(fmt.Sprintf("poison a %s: not known how", v.Type()))
	case reflect.String:
		if !keep(v.Interface()) {
			v.SetString(text)
		}
	}
}

// SelfContained wants page, which shows Evil at least so many times, to load, lead to and
// run nothing; and to be one in which that would be found.
func SelfContained(t *testing.T, page []byte, evils int) {
	t.Helper()
	if got := references(t, page); got != nil {
		t.Errorf("the page refers to the outside: %q", got)
	}
	if n := bytes.Count(page, []byte("example.com/x.png")); n < evils {
		t.Errorf("the hostile text is %d times in the page, want %d: too little was tested", n, evils)
	}
	if bytes.ContainsRune(page, '\x1b') || bytes.ContainsRune(page, '\u202e') {
		t.Error("a control character reaches the page")
	}
	for _, text := range []string{
		`<img src="http://example.com/x.png">`, `<a href="http://example.com">x</a>`, `<link href="x.css">`, `<script>x</script>`,
		`<style>@import "x.css";</style>`, `<style>p { background: url(x.png) }</style>`, `<p style="background: url(x.png)">x</p>`,
		`<p onclick="x">x</p>`, `<svg><use xlink:href="x.svg#a"/></svg>`,
	} {
		if got := references(t, bytes.Replace(page, []byte("<body>"), []byte("<body>"+text), 1)); len(got) != 1 {
			t.Errorf("%s: found %q, want one reference", text, got)
		}
	}
}

// mayLead is where a link may lead to: a file beside the page, or what a promise is quoted from.
var mayLead = regexp.MustCompile(`^([a-z]+\.(json|md|xml)|(\.\./)?[0-9][A-Za-z0-9._/-]*/|https://(kubernetes\.io|kep\.k8s\.io|github\.com/kubernetes)/[A-Za-z0-9._~/#-]+)$`)

// references are the places where a page would load, lead to or run something.
func references(t *testing.T, page []byte) []string {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	attribute := regexp.MustCompile(`(?i)^(src|href|srcset|action|formaction|poster|data|background|on.*)$`)
	style := regexp.MustCompile(`(?i)@import|url\s*\([^#]`) // what begins with # is in the page
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
				if in == "a" && a.Name.Local == "href" && mayLead.MatchString(a.Value) {
					continue
				}
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

// MarkdownCells wants every line of a table to have as many cells as its heading, and
// nothing to be markup; and at least so many tables.
func MarkdownCells(t *testing.T, name, text string, tables int) {
	t.Helper()
	cells := 0
	for line := range strings.Lines(text) {
		code := strings.HasPrefix(line, "    ") // in which nothing is markup
		if strings.ContainsAny(line, "\x1b\u202e\x00") || !code && strings.ContainsAny(line, "<>") {
			t.Errorf("%s: markup or a control character: %q", name, line)
		}
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(escapes.ReplaceAllString(line, ""), "|")
		if cells == 0 {
			cells = n
			tables--
		}
		if n != cells {
			t.Errorf("%s: %d cells, want %d: %q", name, n, cells, line)
		}
	}
	if tables > 0 {
		t.Errorf("%s: %d tables are missing: too little was tested", name, tables)
	}
}

var escapes = regexp.MustCompile(`\\[\\|]`)
