package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// source are the packages that were read for their comments, by path.
type source map[string]*pkg

// pkg is what a package's files say of its types.
type pkg struct {
	types     map[string]string            // comment by type
	fields    map[string]map[string]string // comment by type and field
	constants map[string][]constant        // of string types, by type
}

type constant struct{ value, says string }

const module = "github.com/plumbline/plumbline/"

// Root is the root of the repository that the working directory lies in.
func Root() (string, error) {
	began, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the root of the repository: %w", err)
	}
	for dir := began; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the root of the repository: no go.mod above %s", began)
		}
	}
}

// of reads the package of a type, once.
func (s source) of(t reflect.Type) (*pkg, error) {
	path := t.PkgPath()
	if s[path] != nil {
		return s[path], nil
	}
	root, err := Root()
	if err != nil {
		return nil, fmt.Errorf("read the comments of %s: %w", t, err)
	}
	dir, ours := strings.CutPrefix(path, module)
	if !ours {
		if path != "main" {
			return nil, fmt.Errorf("read the comments of %s: %s is no package of this module", t, path)
		}
		if dir, err = os.Getwd(); err != nil { // a command's test describes what is its own
			return nil, fmt.Errorf("read the comments of %s: %w", t, err)
		}
		root = ""
	}
	p := &pkg{types: map[string]string{}, fields: map[string]map[string]string{}, constants: map[string][]constant{}}
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("read the comments of %s: %w", t, err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("read the comments of %s: %w", t, err)
		}
		if strings.HasSuffix(f.Name.Name, "_test") {
			continue // another package, beside it
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				p.add(g)
			}
		}
	}
	s[path] = p
	return p, nil
}

func (p *pkg) add(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			p.types[spec.Name.Name] = words(spec.Doc, spec.Comment)
			if p.types[spec.Name.Name] == "" && len(g.Specs) == 1 {
				p.types[spec.Name.Name] = words(g.Doc)
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				p.fields[spec.Name.Name] = fieldWords(st)
			}
		case *ast.ValueSpec:
			of, ok := spec.Type.(*ast.Ident)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, v := range spec.Values {
				lit, ok := v.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					continue
				}
				value, _ := strconv.Unquote(lit.Value) // it was parsed
				p.constants[of.Name] = append(p.constants[of.Name], constant{value, words(spec.Doc, spec.Comment)})
			}
		}
	}
}

func fieldWords(st *ast.StructType) map[string]string {
	out := map[string]string{}
	for _, f := range st.Fields.List {
		for _, n := range f.Names {
			out[n.Name] = words(f.Doc, f.Comment)
		}
	}
	return out
}

// field is what a comment says of a field of a named type.
func (s source) field(t reflect.Type, name string) (string, error) {
	if t.Name() == "" {
		return "", nil
	}
	p, err := s.of(t)
	if err != nil {
		return "", err
	}
	return p.fields[t.Name()][name], nil
}

// words are comments on one line.
func words(groups ...*ast.CommentGroup) string {
	var all []string
	for _, g := range groups {
		if g != nil {
			all = append(all, strings.Fields(g.Text())...)
		}
	}
	return strings.Join(all, " ")
}
