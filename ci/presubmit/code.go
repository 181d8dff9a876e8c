package presubmit

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// The ceilings; what the house aims at is about 300 and 40.
const (
	maxFile     = 500
	maxFunction = 80
)

// Lengths holds files and functions to their ceilings. Tests and generated code
// are exempt.
func Lengths(f *File) []Finding {
	if f.Test || f.Generated {
		return nil
	}
	var out []Finding
	if f.Lines > maxFile {
		out = append(out, Finding{File: f.Path, Text: "is longer than 500 lines"})
	}
	for _, d := range f.AST.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && f.lines(fn) > maxFunction {
			out = append(out, f.at(fn, "%s is longer than 80 lines", fn.Name.Name))
		}
	}
	return out
}

func (f *File) lines(n ast.Node) int {
	return f.Set.Position(n.End()).Line - f.Set.Position(n.Pos()).Line + 1
}

// NoInit: registration is an explicit map in main.
func NoInit(f *File) []Finding {
	var out []Finding
	for _, d := range f.AST.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			out = append(out, f.at(fn, "has an init function"))
		}
	}
	return out
}

// Calls that belong to main (os.Exit to its function main alone), or to tests too.
var onlyMain = map[string]bool{"context.Background": true, "context.TODO": true, "os.Exit": true, "log.Fatal": true, "log.Fatalf": true}

// OnlyMain: a library takes the ctx it is given and never ends the program.
func OnlyMain(f *File) []Finding {
	if f.Test || f.Generated {
		return nil
	}
	var out []Finding
	for _, d := range f.AST.Decls {
		fn, _ := d.(*ast.FuncDecl)
		ast.Inspect(d, func(n ast.Node) bool {
			name := qualified(n)
			inMain := f.Main() && (name != "os.Exit" || fn != nil && fn.Name.Name == "main")
			if onlyMain[name] && !inMain {
				out = append(out, f.at(n, "uses %s, which belongs to main", name))
			}
			return true
		})
	}
	return out
}

// Pure: packages that only compute get the time as a value, and of net/http they
// use no more than its numbers and names.
func Pure(f *File) []Finding {
	if f.Test || !isPure(f.Folder()) {
		return nil
	}
	var out []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		name := qualified(n)
		pkg, symbol, _ := strings.Cut(name, ".")
		clock := pkg == "time" && slices.Contains(clocks, symbol)
		client := pkg == "http" && !strings.HasPrefix(symbol, "Status") && !strings.HasPrefix(symbol, "Method")
		if clock || client {
			out = append(out, f.at(n, "uses %s, but this package only computes", name))
		}
		return true
	})
	return out
}

var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

func isPure(folder string) bool {
	for _, p := range pure {
		if folder == p || strings.HasPrefix(folder, p+"/") {
			return true
		}
	}
	return false
}

// Errors: what was being done, not that it failed.
func Errors(f *File) []Finding {
	if f.Test {
		return nil
	}
	var out []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if name := qualified(call.Fun); name != "fmt.Errorf" && name != "errors.New" {
			return true
		}
		text, ok := call.Args[0].(*ast.BasicLit)
		if ok && text.Kind == token.STRING && strings.HasPrefix(strings.ToLower(text.Value[1:]), "failed to") {
			out = append(out, f.at(text, "an error says what was being done: without %q", "failed to"))
		}
		return true
	})
	return out
}

// qualified is "pkg.Name" of a selector, empty for anything else.
func qualified(n ast.Node) string {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return ""
}

// Undocumented lists the packages without a comment on any of their files.
func Undocumented(files []*File) []Finding {
	first := map[string]*File{}
	documented := map[string]bool{}
	for _, f := range files {
		if f.Test {
			continue
		}
		if first[f.Folder()] == nil {
			first[f.Folder()] = f
		}
		documented[f.Folder()] = documented[f.Folder()] || f.AST.Doc != nil
	}
	var out []Finding
	for folder, f := range first {
		if !documented[folder] {
			out = append(out, f.at(f.AST.Name, "package %s has no comment", f.AST.Name.Name))
		}
	}
	return out
}
