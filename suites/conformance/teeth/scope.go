package teeth

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// scope are the sources of a package.
type scope struct {
	files   map[string]part   // by name
	named   map[string][]part // its declarations, by name; methods by that of their receiver
	entries map[string]part   // of tables in it, by key
}

// part is a piece of source, and the names it uses.
type part struct {
	file, text string
	uses       []string
	promises   bool // it is what makes a behaviour
}

// readScope reads a package, without its tests. Names are what naming finds.
func readScope(dir string, naming func(ast.Node) []string) (*scope, error) {
	s := &scope{map[string]part{}, map[string][]part{}, map[string]part{}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		of := func(n ast.Node) part {
			said := string(text[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset])
			return part{filepath.Base(path), said, naming(n), promises(n)}
		}
		whole := of(file)
		whole.text = string(text)
		s.files[whole.file] = whole
		for _, d := range file.Decls {
			s.declare(d, of)
		}
	}
	return s, nil
}

// declare notes a declaration, and the entries of a table in it.
func (s *scope) declare(d ast.Decl, of func(ast.Node) part) {
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

// reach adds names, and those that their declarations use.
func (s *scope) reach(more []string, used map[string]bool) {
	for _, name := range more {
		if used[name] {
			continue
		}
		used[name] = true
		for _, p := range s.named[name] {
			if !p.promises {
				s.reach(p.uses, used)
			}
		}
	}
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

// ownNames are those that may be of its package: not what is another's, or a value's.
func ownNames(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			out = append(out, ownNames(n.X)...)
			return false
		case *ast.Ident:
			out = append(out, n.Name)
		}
		return true
	})
	return out
}

// promises tells whether a declaration is a function that returns a behaviour.
func promises(n ast.Node) bool {
	d, ok := n.(*ast.FuncDecl)
	if !ok || d.Type.Results == nil || len(d.Type.Results.List) != 1 {
		return false
	}
	of, ok := d.Type.Results.List[0].Type.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "Behaviour"
}
