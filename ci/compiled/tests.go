// Package compiled tells what the tests of a package are compiled from, by a hash: a result
// that was kept holds as long as it is the same.
package compiled

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the path of the repository's module.
const Module = "github.com/plumbline/plumbline"

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Dir                 string
	ForTest                         string
	Module                          *struct{ Path string }
	GoFiles, CgoFiles, EmbedFiles   []string
	TestEmbedFiles, XTestEmbedFiles []string
	Deps                            []string
}

// Tests are those of a package.
type Tests struct {
	Folder, Path string // of the package
	Hash         string // of what they are compiled from, and read
}

// All are the tests of the module that the working directory is the root of, in the order of
// go list.
func All(ctx context.Context) ([]Tests, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-json", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w: %s", err, stderr.String())
	}
	all := map[string]listed{}
	var tests []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list the packages: %w", err)
		}
		all[p.ImportPath] = p
		if strings.HasSuffix(p.ImportPath, ".test") && p.Module != nil && p.Module.Path == Module {
			tests = append(tests, p)
		}
	}
	var found []Tests
	for _, p := range tests {
		path := strings.TrimSuffix(p.ImportPath, ".test")
		hash, err := hashOf(p, all)
		if err != nil {
			return nil, fmt.Errorf("hash what the tests of %s are compiled from: %w", path, err)
		}
		found = append(found, Tests{strings.TrimPrefix(path, Module+"/"), path, hash})
	}
	return found, nil
}

// hashOf hashes the files of this module that a test binary is made from, those of
// programs if its tests run them, go.sum for the other modules, and testdata beside it
// and one folder up, where the backends have theirs.
func hashOf(p listed, all map[string]listed) (string, error) {
	files := []string{"go.mod", "go.sum"}
	add := func(p listed) {
		for _, names := range [][]string{p.GoFiles, p.CgoFiles, p.EmbedFiles, p.TestEmbedFiles, p.XTestEmbedFiles} {
			for _, name := range names {
				if !filepath.IsAbs(name) { // the generated main is not in the tree
					files = append(files, filepath.Join(p.Dir, name))
				}
			}
		}
	}
	programs := false
	for _, dep := range p.Deps {
		d := all[dep]
		if d.Module == nil || d.Module.Path != Module {
			continue
		}
		add(d)
		programs = programs || d.ForTest != "" && usesPrograms(d)
	}
	for _, d := range all {
		if programs && strings.HasPrefix(d.ImportPath, Module) && d.ForTest == "" {
			add(d)
		}
	}
	dir := strings.TrimPrefix(strings.TrimSuffix(p.ImportPath, ".test"), Module+"/")
	for _, data := range []string{filepath.Join(dir, "testdata"), filepath.Join(dir, "../testdata")} {
		err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return hashFiles(files)
}

// usesPrograms tells whether tests run programs of the module: those that make has built,
// or that they build themselves.
func usesPrograms(p listed) bool {
	return slices.ContainsFunc(p.GoFiles, func(name string) bool {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		return err == nil && strings.HasSuffix(name, "_test.go") && (bytes.Contains(text, []byte("../bin/")) || bytes.Contains(text, []byte(`"go", "build"`)))
	})
}

func hashFiles(files []string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for i, f := range files {
		if rel, err := filepath.Rel(here, f); err == nil && filepath.IsAbs(f) {
			files[i] = rel
		}
	}
	slices.Sort(files)
	sum := sha256.New()
	for _, f := range slices.Compact(files) {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", f, len(text))
		sum.Write(text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}
