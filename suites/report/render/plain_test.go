package render

import "testing"

func TestPlain(t *testing.T) {
	for _, tt := range []struct{ in, text, line, lines string }{
		{"a b", "a b", "a b", "a b"},
		{"a\nb\n", "a b ", "a; b", "a\nb"},
		{" a \n\n b", " a    b", "a; b", " a \n\n b"},
		{"\x1b[31mred\u202e", " [31mred ", "[31mred", " [31mred "},
		{"a\tb", "a b", "a b", "a    b"},
	} {
		if got := Text(tt.in); got != tt.text {
			t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.text)
		}
		if got := Line(tt.in); got != tt.line {
			t.Errorf("Line(%q) = %q, want %q", tt.in, got, tt.line)
		}
		if got := Lines(tt.in); got != tt.lines {
			t.Errorf("Lines(%q) = %q, want %q", tt.in, got, tt.lines)
		}
	}
}
