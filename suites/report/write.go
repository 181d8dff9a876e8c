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

// Read reads a summary.json of this version, or of the one before.
func Read(path string) (Summary, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Summary{}, fmt.Errorf("read the report: %w", err)
	}
	var is struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	var s Summary
	err = json.Unmarshal(b, &is)
	switch {
	case err != nil:
	case is.Kind == Kind && is.APIVersion == APIVersion:
		err = json.Unmarshal(b, &s)
	case is.Kind == Kind && is.APIVersion == v1alpha1:
		s, err = fromV1alpha1(b)
	default:
		return Summary{}, fmt.Errorf("read the report %s: it is a %s %s, not a %s %s", path, is.APIVersion, is.Kind, APIVersion, Kind)
	}
	if err != nil {
		return Summary{}, fmt.Errorf("read the report %s: %w", path, err)
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
