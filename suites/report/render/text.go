// Package render writes what reports have in common: tables for a terminal, Markdown,
// JUnit's XML, pages of HTML. It knows no report. Text of any origin goes in; what comes
// out is safe where it is shown.
package render

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

// Style is what all pages look like.
//
//go:embed style.css
var Style string // const: embedding needs a variable

// Fact is one line of what a run's figures depend on.
type Fact [2]string

// Name is what the line is about.
func (f Fact) Name() string { return f[0] }

// Text is what it says.
func (f Fact) Text() string { return f[1] }

// Page is a page of a template's; html/template escapes all text of data.
func Page(name, text string, data any) ([]byte, error) {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse the template of %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// Plural is "1 node", "2 nodes".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Prefixed is s after prefix, or nothing.
func Prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// Parens is s in parentheses, or nothing.
func Parens(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// Joined joins what is not empty.
func Joined(sep string, parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, sep)
}
