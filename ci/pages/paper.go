package main

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	heading = regexp.MustCompile(`(?s)<h1[^>]*>(.*?)</h1>`)
	tag     = regexp.MustCompile(`<[^>]*>`)
	space   = regexp.MustCompile(`\s+`)
)

// onPaper prints a page to PDF, and finds its heading on the first sheet.
func onPaper(ctx context.Context, browser, file, pictures string) (said string, ok bool, err error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", false, fmt.Errorf("find %s: %w", file, err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return "", false, fmt.Errorf("print %s: %w", file, err)
	}
	m := heading.FindStringSubmatch(string(page))
	if m == nil {
		return "BAD: it has no heading", false, nil
	}
	dir, err := os.MkdirTemp("", "pages-")
	if err != nil {
		return "", false, fmt.Errorf("make a folder for the browser: %w", err)
	}
	defer os.RemoveAll(dir)
	pdf := filepath.Join(dir, "page.pdf")
	if _, _, err := screens()[0].browse(ctx, browser, dir, "--no-pdf-header-footer", "--print-to-pdf="+pdf, "file://"+path); err != nil {
		return "", false, fmt.Errorf("print %s: %w", file, err)
	}
	all, err := exec.CommandContext(ctx, "pdftotext", pdf, "-").Output()
	if err != nil {
		return "", false, fmt.Errorf("read the print of %s: %w", file, err)
	}
	if pictures != "" {
		to := filepath.Join(pictures, filepath.Base(filepath.Dir(path))+"-print")
		if out, err := exec.CommandContext(ctx, "pdftoppm", "-png", "-r", "70", "-singlefile", pdf, to).CombinedOutput(); err != nil {
			return "", false, fmt.Errorf("take a picture of the print of %s: %w: %s", file, err, out)
		}
	}
	want := plain(html.UnescapeString(tag.ReplaceAllString(m[1], " ")))
	first, _, _ := strings.Cut(string(all), "\f")
	sheets := strings.Count(string(all), "\f")
	if !strings.Contains(plain(first), want) {
		return fmt.Sprintf("BAD: %d sheets, and the verdict %q is not on the first", sheets, want), false, nil
	}
	return fmt.Sprintf("%d sheets, the verdict on the first", sheets), true, nil
}

// plain is text without its spaces, which a print puts elsewhere.
func plain(s string) string { return space.ReplaceAllString(strings.ReplaceAll(s, "\u00ad", ""), "") }
