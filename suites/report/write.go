package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Names of the files that Write makes.
const (
	SummaryFile  = "summary.json"
	JUnitFile    = "junit.xml"
	MarkdownFile = "report.md"
	HTMLFile     = "report.html"
	TraceFile    = "trace.json" // for Perfetto and chrome://tracing
)

// Write renders the run into dir, which it makes if need be. summary.json comes
// first; everything else can be made again from it. A file that cannot be written does not keep
// others from being.
func Write(dir string, s Summary) error {
	s = Complete(s)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the report: %w", err)
	}
	return together(append([]error{writeFile(dir, SummaryFile, s, summaryJSON)}, pages(dir, s)...))
}

// WritePages renders all but summary.json into dir.
func WritePages(dir string, s Summary) error {
	return together(pages(dir, Complete(s)))
}

func pages(dir string, s Summary) []error {
	return []error{
		writeFile(dir, JUnitFile, s, junit),
		writeFile(dir, MarkdownFile, s, func(s Summary) ([]byte, error) { return markdown(s), nil }),
		writeFile(dir, HTMLFile, s, html),
		writeFile(dir, TraceFile, s, trace),
	}
}

// together is the first of the errors, with how many more there are: what keeps one file of a
// report from being written (a full disk) keeps the others as well.
func together(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w (and %d more of its files)", errs[0], len(errs)-1)
}

// writeFile puts a rendering under its name when all of it is written.
func writeFile(dir, name string, s Summary, to func(Summary) ([]byte, error)) error {
	b, err := to(s)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, name)
	err = render.File(file, b)
	// The path around it is of a file that was never to be seen.
	if why, ok := errors.AsType[syscall.Errno](err); ok {
		err = why
	}
	if err != nil {
		return fmt.Errorf("write the report: %s: %w", file, err)
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
