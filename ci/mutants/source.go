package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/plumbline/plumbline/ci/presubmit"
)

// source is a package that is mutated, with its types.
type source struct {
	*packages.Package
	folder string
}

// load reads the package of a folder of the module at root.
func load(root, folder string) (*source, error) {
	p, err := presubmit.Load(root, folder)
	if err != nil {
		return nil, err
	}
	return &source{p, folder}, nil
}

// mutants are the changes that compile, of the files given, or of all, in the order of the source.
func (s *source) mutants(files []string) (out []mutant, err error) {
	all, err := s.changes(files)
	for _, m := range all {
		if s.compiles(m) {
			m.number = len(out) + 1
			out = append(out, m)
		}
	}
	return out, err
}

// changes are all that the operators make.
func (s *source) changes(files []string) (out []mutant, err error) {
	for _, file := range s.Syntax {
		path := s.Fset.Position(file.Pos()).Filename
		if name := filepath.Base(path); len(files) > 0 && !slices.Contains(files, name) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read what is to be mutated: %w", err)
		}
		m := &mutator{source: s, path: path, name: filepath.ToSlash(filepath.Join(s.folder, filepath.Base(path))), text: string(text), seen: map[string]bool{}, count: map[string]int{}, alone: map[*ast.CallExpr]bool{}}
		m.file(file)
		out = append(out, m.out...)
	}
	return out, nil
}

// compiles tells whether the package does with a mutant in the place of a file.
func (s *source) compiles(m mutant) bool {
	file, err := parser.ParseFile(s.Fset, m.path, m.text(), parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	files := []*ast.File{file}
	for _, f := range s.Syntax {
		if s.Fset.Position(f.Pos()).Filename != m.path {
			files = append(files, f)
		}
	}
	conf := types.Config{Importer: s, Sizes: s.TypesSizes, GoVersion: "go" + s.Module.GoVersion}
	_, err = conf.Check(s.PkgPath, s.Fset, files, nil)
	return err == nil
}

// Import is for the type checker: what the package imports has been loaded.
func (s *source) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	for _, p := range s.Types.Imports() {
		if p.Path() == path {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s does not import %s", s.PkgPath, path)
}

// mutant is a package with one change.
type mutant struct {
	Name   string // file:function:operator:n, n counts those of an operator in a function
	Line   int
	Change string // what was, and what is, on one line
	path   string // of the file that is changed
	was    string // its text
	edit   edit   // of that

	number    int           // in the program that has many
	function  *ast.FuncDecl // that is changed, nil if it is a variable
	arguments []string      // of that, nil if it has a program of its own
}

// text is the file's with the change.
func (m mutant) text() string { return apply(m.was, m.edit) }

// mutator makes the mutants of one file.
type mutator struct {
	*source
	path, name string
	text       string
	decl       *ast.FuncDecl          // which is being changed, nil if it is a variable
	function   string                 // its name
	count      map[string]int         // by function and operator
	seen       map[string]bool        // texts of mutants, to have each once
	alone      map[*ast.CallExpr]bool // calls that are mutated as a statement only
	out        []mutant
}

// file goes through all functions, and the values of variables outside of them.
func (m *mutator) file(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body == nil {
				continue
			}
			m.decl, m.function = d, d.Name.Name
			if d.Recv != nil {
				m.function = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + m.function
			}
			m.returnEarly(d)
			ast.Inspect(d.Body, m.node)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
					m.decl, m.function = nil, v.Names[0].Name
					ast.Inspect(v, m.node)
				}
			}
		}
	}
}

// offset is where in the text of its file a position is.
func (s *source) offset(p token.Pos) int { return s.Fset.Position(p).Offset }

func (m *mutator) of(from, to token.Pos) string { return m.text[m.offset(from):m.offset(to)] }

// replace makes a mutant: what is between two positions is replaced. around is what the
// change is shown in.
func (m *mutator) replace(operator string, around ast.Node, from, to token.Pos, with string) {
	key := m.function + ":" + operator
	m.count[key]++
	change := edit{m.offset(from), m.offset(to), with}
	text := apply(m.text, change)
	if m.seen[text] || text == m.text {
		return
	}
	m.seen[text] = true
	begin, end := m.offset(around.Pos()), m.offset(around.End())
	was, is := oneLine(m.text[begin:end]), oneLine(text[begin:end+len(text)-len(m.text)])
	made := mutant{
		Name: fmt.Sprintf("%s:%s:%d", m.name, key, m.count[key]), Line: m.Fset.Position(from).Line,
		Change: shorten(was, is), path: m.path, was: m.text, edit: change, function: m.decl,
	}
	if m.decl != nil {
		made.arguments = arguments(m.decl)
	}
	m.out = append(m.out, made)
}

// oneLine is a piece of source without its line breaks and indents.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// most is how many characters of each side of a change are shown.
const most = 90

// shorten shows a change: where a side is long, from shortly before the first difference on.
func shorten(was, is string) string {
	same := 0
	for same < len(was) && same < len(is) && was[same] == is[same] {
		same++
	}
	cut := func(text string) string {
		if len(text) > most {
			text = text[min(max(0, same-most/3), len(text)):]
			if len(text) < len(was) && same > most/3 {
				text = "…" + text
			}
		}
		if len(text) > most {
			text = text[:most] + "…"
		}
		return strings.ToValidUTF8(text, "")
	}
	if is = cut(is); is == "" {
		is = "nothing"
	}
	return cut(was) + " -> " + is
}
