package teeth

import (
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
)

// sources are the texts that rows of the table are about.
type sources struct {
	root    string
	entries map[string]part   // of package mutant, by mutation
	named   map[string][]part // its declarations, by name; methods by that of their receiver
}

// part is a piece of source, and the names it uses.
type part struct {
	text string
	uses []string
}

// common is what all mutations are written with; no row is about it.
const common = "changes"

// readSources reads package mutant below the root of the source tree.
func readSources(root string) (*sources, error) {
	s := &sources{root: root, entries: map[string]part{}, named: map[string][]part{}}
	paths, err := filepath.Glob(filepath.Join(root, "suites/conformance/mutant/*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the mutations: %w", err)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read the mutations: %w", err)
		}
		of := func(n ast.Node) part {
			return part{string(text[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset]), names(n)}
		}
		for _, d := range file.Decls {
			s.declare(d, of)
		}
	}
	return s, nil
}

// declare notes a declaration, and the entries of a table of mutations in it.
func (s *sources) declare(d ast.Decl, of func(ast.Node) part) {
	switch d := d.(type) {
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.named[spec.Name.Name] = append(s.named[spec.Name.Name], of(spec))
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					s.named[n.Name] = append(s.named[n.Name], of(spec))
				}
			}
		}
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = names(d.Recv.List[0].Type)[0]
		}
		s.named[name] = append(s.named[name], of(d))
	}
	ast.Inspect(d, func(n ast.Node) bool {
		if e, ok := n.(*ast.KeyValueExpr); ok {
			if key, ok := e.Key.(*ast.BasicLit); ok && key.Kind == token.STRING {
				if name, err := strconv.Unquote(key.Value); err == nil {
					s.entries[name] = of(e)
				}
			}
		}
		return true
	})
}

// names are those that a piece of source uses.
func names(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			out = append(out, id.Name)
		}
		return true
	})
	return out
}

// digest is of all that a mutation's row is about: its declaration, its entry in package mutant with
// what that is made of, and the files of the behaviours that are to catch it.
func (s *sources) digest(name string, m mutation) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, m.Breaks, m.IPFamily, m.Caught)
	entry := s.entries[name]
	fmt.Fprintln(sum, entry.text)
	used := map[string]bool{common: true}
	s.reach(entry.uses, used)
	for _, u := range slices.Sorted(maps.Keys(used)) {
		for _, p := range s.named[u] {
			if u != common {
				fmt.Fprintln(sum, p.text)
			}
		}
	}
	for _, id := range m.Caught {
		if err := addFile(sum, filepath.Join(s.root, "suites/conformance/behaviours", behaviours.File(id))); err != nil {
			return "", fmt.Errorf("read behaviour %s: %w", id, err)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

// reach adds names, and those that their declarations use.
func (s *sources) reach(more []string, used map[string]bool) {
	for _, name := range more {
		if used[name] {
			continue
		}
		used[name] = true
		for _, p := range s.named[name] {
			s.reach(p.uses, used)
		}
	}
}

func addFile(to io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}
