package conformance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/render"
)

// Names of the files that Write makes.
const (
	JSONFile     = "report.json"
	YAMLFile     = "report.yaml"
	JUnitFile    = "junit.xml"
	MarkdownFile = "report.md"
	HTMLFile     = "report.html"
)

// LogFile is the run's own log beside them, written by whoever runs it, under the
// name that Sonobuoy's and Kubernetes' own results have.
const LogFile = "e2e.log"

// Write completes the report and renders it into dir, which it makes if need be
// and where the evidence is. report.json comes first; everything else can be made
// again from it and the evidence.
func Write(dir string, r Report) error { return write(dir, Complete(r), true) }

// WritePages renders all but the data into dir.
func WritePages(dir string, r Report) error { return write(dir, Complete(r), false) }

func write(dir string, r Report, data bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the report: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the folder of the report: %w", err)
	}
	defer root.Close()
	read := evidenceIn(root)
	files := map[string]func() ([]byte, error){
		JUnitFile:    func() ([]byte, error) { return junit(r, read) },
		MarkdownFile: func() ([]byte, error) { return markdown(r), nil },
		HTMLFile:     func() ([]byte, error) { return html(r, read) },
	}
	if data {
		files[JSONFile] = func() ([]byte, error) { return toJSON(r) }
		files[YAMLFile] = func() ([]byte, error) { return toYAML(r) }
	}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b, err := files[name]()
		if err == nil {
			err = render.File(filepath.Join(dir, name), b)
		}
		if err != nil {
			all = append(all, fmt.Errorf("write %s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

// evidenceIn reads within the folder of the report and nowhere else: a path that
// leads out of it, by a link too, is an error. Its errors leave the path out, which
// stands beside them.
func evidenceIn(root *os.Root) ReadEvidence {
	return func(path string, limit int) ([]byte, int64, error) {
		head, size, err := readHead(root, filepath.FromSlash(path), limit)
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err
		}
		return head, size, err
	}
}

func readHead(root *os.Root, path string, limit int) ([]byte, int64, error) {
	info, err := root.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for its other end
		return nil, 0, errors.New("no regular file")
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	return head, info.Size(), err
}

func toJSON(r Report) ([]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", JSONFile, err)
	}
	return append(b, '\n'), nil
}

func toYAML(r Report) ([]byte, error) {
	b, err := json.Marshal(r)
	if err == nil {
		b, err = yaml.JSONToYAML(forYAML(b))
	}
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", YAMLFile, err)
	}
	return b, nil
}

// forYAML escapes what may stand as it is in a string of JSON and not in YAML: some
// control characters and the byte order mark (YAML 1.2, 5.1). It turns up in error
// texts with binary data in them.
func forYAML(b []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(b) {
		if r == 0x7f || r > 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// Read reads a report of this version, from its JSON or its YAML, or from the
// folder that holds one.
func Read(path string) (Report, error) {
	b, err := contents(path)
	if err != nil {
		return Report{}, err
	}
	version, kind, err := kindOf(path, b)
	if err != nil {
		return Report{}, err
	}
	if version != APIVersion || kind != Kind {
		return Report{}, fmt.Errorf("read the report %s: it is a %q of version %q, not a %s of %s", path, kind, version, Kind, APIVersion)
	}
	var r Report
	if err := decode(b, &r); err != nil {
		return Report{}, fmt.Errorf("read the report %s: %w", path, err)
	}
	return r, nil
}

// ReadKind says what a report is, of whatever kind and version: this one's Kind or
// report.Kind, for instance. In a folder it looks for either's file.
func ReadKind(path string) (version, kind string, err error) {
	b, err := contents(path)
	if err != nil {
		return "", "", err
	}
	return kindOf(path, b)
}

func kindOf(path string, b []byte) (version, kind string, err error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := decode(b, &head); err != nil {
		return "", "", fmt.Errorf("read the report %s: %w", path, err)
	}
	if head.Kind == "" {
		return "", "", fmt.Errorf("read the report %s: it names no kind", path)
	}
	return head.APIVersion, head.Kind, nil
}

// decode takes JSON for what it is: as YAML it would mean the same, but the reader
// of YAML refuses some of its strings.
func decode(b []byte, into any) error {
	if json.Valid(b) {
		return json.Unmarshal(b, into)
	}
	return yaml.Unmarshal(b, into)
}

func contents(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if !info.IsDir() {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the report: %w", err)
		}
		return b, nil
	}
	for _, name := range []string{JSONFile, YAMLFile, report.SummaryFile} {
		b, err := os.ReadFile(filepath.Join(path, name))
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read the report: %w", err)
		}
	}
	return nil, fmt.Errorf("read the report: %s has neither %s nor %s nor %s", path, JSONFile, YAMLFile, report.SummaryFile)
}

// WriteDone packs a report's folder into results, as plumbline.tar.gz, and only
// then writes the file "done" there, whole at once, with the archive's path: the
// worker beside the plugin sends what it names as soon as it sees it. The worker
// takes the path as it stands, so it has no line end, and what follows its first
// dot for the archive's kind: the path of results must have none. The archive
// cannot be in the folder that it packs.
func WriteDone(results, dir string) error {
	results, err := filepath.Abs(results)
	if err != nil {
		return fmt.Errorf("name the folder of results: %w", err)
	}
	inside, err := holds(dir, results)
	switch {
	case err != nil:
		return fmt.Errorf("name the folder of the report: %w", err)
	case strings.Contains(results, "."):
		return fmt.Errorf("write the done file: %s has a dot in its path, which its reader takes for the archive's extension", results)
	case inside:
		return fmt.Errorf("write the done file: %s is in %s, which is to be packed there", results, dir)
	}
	archive := filepath.Join(results, "plumbline.tar.gz")
	if err := pack(archive, dir); err != nil {
		return fmt.Errorf("pack %s into %s: %w", dir, archive, err)
	}
	done := filepath.Join(results, "done")
	if err := os.WriteFile(done+".new", []byte(archive), 0o644); err != nil {
		return fmt.Errorf("write the done file: %w", err)
	}
	if err := os.Rename(done+".new", done); err != nil {
		return fmt.Errorf("write the done file: %w", err)
	}
	return nil
}

// holds says whether an absolute path is a folder or below it.
func holds(dir, path string) (bool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel), err
}

func pack(archive, dir string) (err error) {
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := gzip.NewWriter(f)
	t := tar.NewWriter(z)
	if err := t.AddFS(os.DirFS(dir)); err != nil {
		return err
	}
	return errors.Join(t.Close(), z.Close())
}
