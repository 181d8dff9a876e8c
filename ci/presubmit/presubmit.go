// Package presubmit holds the rules of this repository that a machine can
// check, and its tests hold the repository to them: who may import whom
// (architecture), lengths, what only main may do, pins that must agree, words
// that do not belong here.
//
// A rule is a function from what it looks at to findings. Each is shown to find
// something by a test with a bad example.
package presubmit

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the module whose rules these are.
const Module = "github.com/plumbline/plumbline"

// Finding is one breach of a rule.
type Finding struct {
	File string // slash-separated, from the root of the repository
	Line int    // 0: the file as a whole
	Text string // what is wrong
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

// File is one Go file of the module.
type File struct {
	Path      string
	Test      bool // _test.go
	Generated bool // by its header (go.dev/s/generatedcode)
	Lines     int
	AST       *ast.File
	Set       *token.FileSet
}

// Folder is the package's folder, from the root of the repository.
func (f *File) Folder() string { return path.Dir(f.Path) }

// Main tells whether the file is part of a program.
func (f *File) Main() bool { return f.AST.Name.Name == "main" }

// Imports are the folders of this module it imports, and whole paths of others.
func (f *File) Imports() []string {
	var out []string
	for _, i := range f.AST.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err == nil {
			out = append(out, strings.TrimPrefix(p, Module+"/"))
		}
	}
	return out
}

func (f *File) at(n ast.Node, format string, args ...any) Finding {
	return Finding{File: f.Path, Line: f.Set.Position(n.Pos()).Line, Text: fmt.Sprintf(format, args...)}
}

// ParseFile reads one Go file.
func ParseFile(name string, text []byte) (*File, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return &File{
		Path: name, Test: strings.HasSuffix(name, "_test.go"), Generated: ast.IsGenerated(tree),
		Lines: strings.Count(string(text), "\n"), AST: tree, Set: set,
	}, nil
}

// Tree lists the files of the repository, without what tools put there.
func Tree(root fs.FS) ([]string, error) {
	var out []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(name, ".") && name != "." && name != ".github" && name != ".ci"
			if hidden || name == "bin" || name == "results" {
				return fs.SkipDir
			}
			return nil
		}
		if name != ".git" { // of a worktree, a file
			out = append(out, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the repository: %w", err)
	}
	return out, nil
}

// topLevel is what the root of the repository has.
var topLevel = []string{ // const
	".ci", ".github", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "NOTICE", "README.md",
	"ci", "dataplane", "docs", "fixtures", "go.mod", "go.sum", "lbprovider", "suites", "tools",
}

// TopLevel finds what is at the root and is none of that.
func TopLevel(tree []string) []Finding {
	var out []Finding
	for _, name := range tree {
		top, _, _ := strings.Cut(name, "/")
		f := Finding{File: top, Text: "the root of the repository has a fixed list (topLevel): put it below one of its folders"}
		if !slices.Contains(topLevel, top) && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// GoFiles parses the Go files of this module; folders with a go.mod of their own
// and testdata are others' affair.
func GoFiles(root fs.FS, tree []string) ([]*File, error) {
	var others []string
	for _, name := range tree {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			others = append(others, path.Dir(name)+"/")
		}
	}
	var out []*File
	for _, name := range tree {
		foreign := slices.ContainsFunc(others, func(dir string) bool { return strings.HasPrefix(name, dir) })
		if path.Ext(name) != ".go" || foreign || strings.Contains(name, "testdata/") {
			continue
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		f, err := ParseFile(name, text)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// Check applies rules to files; findings come in order of place.
func Check(files []*File, rules ...func(*File) []Finding) []Finding {
	var out []Finding
	for _, f := range files {
		for _, rule := range rules {
			out = append(out, rule(f)...)
		}
	}
	slices.SortFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return out
}
