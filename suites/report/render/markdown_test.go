package render

import "testing"

// TestMarkdownURLs: a URL stays one, and what marks up elsewhere does not.
func TestMarkdownURLs(t *testing.T) {
	for text, want := range map[string]string{
		"(https://example.com/a_b/c.go#L1-L2, KEP-1)": "(https://example.com/a_b/c.go#L1-L2, KEP-1)",
		"# a": `\# a`, "a # b #": `a \# b \#`, "_a_ b_": `\_a\_ b\_`, "__a": `\_\_a`, "a_b#c": "a_b#c", "(_a_)": `(\_a\_)`,
	} {
		if got := Markdown(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
