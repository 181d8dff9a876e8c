package dptest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// becomesSyntax renders a history's objects under their own names and with a text
// put into every name, and tells what differs.
func becomesSyntax(b Backend, h *History, text string) string {
	tame, wild := &objects.Snapshot{}, &objects.Snapshot{}
	for _, c := range changes(&h.Objects) {
		tame.Apply(c)
		wild.Apply(rename(c, text))
	}
	opt := defaults()
	opt.SCTP = true
	p, q := plan.Build(tame, opt), plan.Build(wild, opt)
	want, got := sortedLines(b.Render(p)), sortedLines(b.Render(q))
	if slices.Equal(want, got) {
		return ""
	}
	// A backend may name its chains by a digest of a Service's name.
	if was, is := alphabet(want), alphabet(got); len(want) != len(got) || strings.Trim(is, was+digest) != "" {
		return fmt.Sprintf("names with %q give %d lines of %q, tame ones %d of %q", text, len(got), is, len(want), was)
	}
	for _, line := range got {
		if len(text) >= 4 && strings.Contains(line, text) {
			return fmt.Sprintf("%q is in the line %q", text, line)
		}
	}
	return ""
}

// digest are the characters of a name that is made, not taken over.
const digest = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// rename puts a text behind every name; the order of names stays.
func rename(c objects.Change, text string) objects.Change {
	wild := func(n objects.Name) objects.Name {
		return objects.Name{Namespace: n.Namespace + text, Name: n.Name + text}
	}
	switch {
	case c.Service != nil:
		s := *c.Service
		s.Name, s.Ports = wild(s.Name), slices.Clone(s.Ports)
		for i := range s.Ports {
			s.Ports[i].Name += text
		}
		c.Service = &s
	case c.Slice != nil:
		s := *c.Slice
		s.Name, s.Service, s.Ports = wild(s.Name), wild(s.Service), slices.Clone(s.Ports)
		for i := range s.Ports {
			s.Ports[i].Name += text
		}
		c.Slice = &s
	case c.ServiceCIDR != nil:
		s := *c.ServiceCIDR
		s.Name += text
		c.ServiceCIDR = &s
	}
	return c
}

func sortedLines(text string) []string { return slices.Sorted(strings.Lines(text)) }

// alphabet are the characters of some lines.
func alphabet(lines []string) string {
	var out []rune
	for _, line := range lines {
		out = append(out, []rune(line)...)
	}
	slices.Sort(out)
	return string(slices.Compact(out))
}

// FuzzNames is Names with what a fuzzer comes up with: a history's bytes, and the
// text that is put into every name. A backend's own fuzz test calls it.
func FuzzNames(f *testing.F, b Backend) {
	histories := firstHistories()
	for i, text := range hostile() {
		f.Add(histories[i%len(histories)], text)
	}
	f.Fuzz(func(t *testing.T, history []byte, text string) {
		h := &History{dice: &bytesDice{left: history}}
		h.First()
		for range 30 {
			h.Next()
		}
		if bad := becomesSyntax(b, h, text); bad != "" {
			t.Error(bad)
		}
	})
}

// FuzzPlans calls each with the plans of histories that a fuzzer chooses.
func FuzzPlans(f *testing.F, each func(*testing.T, *plan.Plan)) {
	seedBytes(f)
	f.Fuzz(func(t *testing.T, history []byte) {
		d := &bytesDice{left: history}
		h := &History{dice: d}
		opt := h.Options()
		h.First()
		for len(d.left) > 0 {
			h.Next()
		}
		each(t, plan.Build(&h.Objects, opt))
	})
}

func seedBytes(f *testing.F) {
	for _, history := range firstHistories() {
		f.Add(history)
	}
}

// firstHistories are to begin with, of bytes of every value: of a text's there would hardly be a Service.
func firstHistories() (out [][]byte) {
	for i := range 24 {
		b := make([]byte, 400)
		x := uint32(i + 1)
		for j := range b {
			x = x*1664525 + 1013904223
			b[j] = byte(x >> 24)
		}
		out = append(out, b)
	}
	return out
}
