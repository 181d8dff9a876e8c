package render

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// TestContrast: text is told from what is behind it, in both themes, as WCAG 2.2 asks for (AA: 4.5
// of text, 1.4.3; 3 of drawings, 1.4.11).
func TestContrast(t *testing.T) {
	light, dark, found := strings.Cut(Style, "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("there is no dark theme")
	}
	dark, _, _ = strings.Cut(dark, "\n")
	for theme, text := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+):#([0-9a-f]{3,6});`).FindAllStringSubmatch(text, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, pair := range []struct {
			front, behind string
			least         float64
		}{
			{"fg", "bg", 4.5}, {"fg", "card", 4.5}, {"dim", "bg", 4.5}, {"dim", "card", 4.5}, {"link", "bg", 4.5},
			{"good", "bg", 4.5}, {"good", "card", 4.5}, {"bad", "bg", 4.5}, {"bad", "card", 4.5}, {"warn", "bg", 4.5}, {"warn", "card", 4.5},
			{"bg", "good", 4.5}, {"bg", "part", 4.5}, {"idletext", "idle", 4.5}, // in bars
			{"part", "bg", 3}, {"late", "bg", 3}, {"dim", "bg", 3}, // bars' edges
		} {
			a, ok := colours[pair.front]
			b, also := colours[pair.behind]
			if !ok || !also {
				t.Errorf("%s: no colour %s or %s", theme, pair.front, pair.behind)
				continue
			}
			if c := (max(a, b) + 0.05) / (min(a, b) + 0.05); c < pair.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", theme, pair.front, pair.behind, c, pair.least)
			}
		}
	}
}

// luminance is WCAG's relative luminance of a colour.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		var n int
		if _, err := fmt.Sscanf(hex[2*i:2*i+2], "%02x", &n); err != nil {
			t.Fatalf("colour %s: %v", hex, err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
