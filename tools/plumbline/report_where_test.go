package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plumbline/plumbline/suites/report"
)

// A report that is not there is not named: a full disk may have kept it from being written.
func TestWhereReport(t *testing.T) {
	dir := t.TempDir()
	if got := whereReport(dir); got != "" {
		t.Errorf("named without being there: %q", got)
	}
	page := filepath.Join(dir, report.HTMLFile)
	if err := os.WriteFile(page, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := whereReport(dir), "\nreport: "+page+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
