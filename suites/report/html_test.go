package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
)

// TestHTMLIsSelfContained: the page fetches nothing, whatever objects are called.
func TestHTMLIsSelfContained(t *testing.T) {
	s := sample()
	s.Error = `pull <img src="http://example.com/x.png">: no`
	s.Rows[2].Name = `</style></td><link rel="stylesheet" href="//example.com/x.css"><a href=http://example.com>`
	s.Rows[3].Error = `</li><script src=https://example.com/x.js></script><b style="background:url(http://example.com)">`
	b, err := html(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := references(t, b); got != nil {
		t.Errorf("report.html refers to the outside: %q", got)
	}
	if !bytes.Contains(b, []byte("example.com/x.css")) {
		t.Error("the hostile name is not in the page: nothing was tested")
	}
	for _, text := range []string{
		`<img src="http://example.com/x.png">`, `<a href="http://example.com">x</a>`, `<link href="x.css">`, `<script>x</script>`,
		`<style>@import "x.css";</style>`, `<style>p { background: url(x.png) }</style>`, `<p style="background: url(x.png)">x</p>`,
		`<svg><use xlink:href="x.svg#a"/></svg>`,
	} {
		if got := references(t, bytes.Replace(b, []byte("<body>"), []byte("<body>"+text), 1)); len(got) != 1 {
			t.Errorf("%s: found %q, want one reference", text, got)
		}
	}
}

// references are the places where a page would load or lead to something else.
func references(t *testing.T, page []byte) []string {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	attribute := map[string]bool{"src": true, "href": true, "srcset": true, "action": true, "formaction": true, "poster": true, "data": true, "background": true}
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
				if attribute[strings.ToLower(a.Name.Local)] || style.MatchString(a.Value) {
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
