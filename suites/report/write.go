package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Names of the files that Write makes.
const (
	SummaryFile  = "summary.json"
	JUnitFile    = "junit.xml"
	MarkdownFile = "report.md"
	HTMLFile     = "report.html"
)

// Write renders the run into dir, which it makes if need be. summary.json comes
// first; everything else can be made again from it.
func Write(dir string, s Summary) error {
	s = Complete(s)
	files := []struct {
		name   string
		render func(Summary) ([]byte, error)
	}{
		{SummaryFile, summaryJSON},
		{JUnitFile, junit},
		{MarkdownFile, func(s Summary) ([]byte, error) { return markdown(s), nil }},
		{HTMLFile, html},
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the report: %w", err)
	}
	for _, f := range files {
		b, err := f.render(s)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), b, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

// Read reads a summary.json of this version.
func Read(path string) (Summary, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Summary{}, fmt.Errorf("read the report: %w", err)
	}
	var s Summary
	if err := json.Unmarshal(b, &s); err != nil {
		return Summary{}, fmt.Errorf("read the report %s: %w", path, err)
	}
	if s.APIVersion != APIVersion || s.Kind != Kind {
		return Summary{}, fmt.Errorf("read the report %s: it is a %s %s, not a %s %s", path, s.APIVersion, s.Kind, APIVersion, Kind)
	}
	for i, r := range s.Rows { // older ones do not say it of ours
		s.Rows[i].Judged = r.Judged || r.Own && r.Mode == Fallback
	}
	return s, nil
}

func summaryJSON(s Summary) ([]byte, error) {
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, fmt.Errorf("render summary.json: %w", err)
	}
	return append(b, '\n'), nil
}
