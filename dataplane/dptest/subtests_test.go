package dptest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// folder is the Go code of a folder of the repository.
type folder struct {
	funcs map[string]*ast.FuncDecl // but no methods
	texts map[string]bool          // all string literals
	suite *folder                  // that of dptest, whose parts run as subtests elsewhere
}

// suite is where dptest is.
const suite = "dataplane/dptest"

func readFolder(name string) (*folder, error) {
	paths, err := filepath.Glob(filepath.Join(root, name, "*.go"))
	if err != nil {
		return nil, err
	}
	f := &folder{funcs: map[string]*ast.FuncDecl{}, texts: map[string]bool{}}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncDecl); ok && fn.Recv == nil {
				f.funcs[fn.Name.Name] = fn
			}
			if text, ok := literal(n); ok {
				f.texts[text] = true
			}
			return true
		})
	}
	if f.suite = f; name != suite {
		f.suite, err = readFolder(suite)
	}
	return f, err
}

// literal is the text of a string literal, as the name of a test has it.
func literal(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return strings.ReplaceAll(text, " ", "_"), err == nil
}

// subtests are those of a test: by name where the code says it, and those whose
// names it makes.
type subtests struct {
	named map[string]*subtests
	made  *subtests
}

// has tells whether a path of names can be: a name that is made must be a string
// literal of the folder, or a case.
func (s *subtests) has(path []string, known func(name string) bool) bool {
	if len(path) == 0 {
		return true
	}
	if next := s.named[path[0]]; next != nil {
		return next.has(path[1:], known)
	}
	return s.made != nil && known(path[0]) && s.made.has(path[1:], known)
}

// closure is a function literal that is passed to a function, and what its names mean.
type closure struct {
	in     *folder
	body   ast.Node
	passed map[string]closure
}

// collect adds the subtests of a piece of code. It follows calls of functions of the
// folder and of dptest, with the functions passed to them.
func (s *subtests) collect(c closure, depth int) {
	if depth > 20 { // a recursion
		return
	}
	ast.Inspect(c.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if isRun(call) {
			if next, ok := c.function(call.Args[1]); ok {
				s.below(call.Args[0]).collect(next, depth+1)
			}
			return false
		}
		next, ok := c.function(call.Fun)
		if ok {
			next.pass(c, call)
			s.collect(next, depth+1)
		}
		return !ok
	})
}

// isRun tells t.Run(name, function) from other calls.
func isRun(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Run" || len(call.Args) != 2 {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "t"
}

// below are the subtests of the one with this name.
func (s *subtests) below(name ast.Expr) *subtests {
	text, ok := literal(name)
	if !ok {
		if s.made == nil {
			s.made = &subtests{}
		}
		return s.made
	}
	if s.named == nil {
		s.named = map[string]*subtests{}
	}
	if s.named[text] == nil {
		s.named[text] = &subtests{}
	}
	return s.named[text]
}

// function is what an expression calls or passes, if that can be told.
func (c closure) function(e ast.Expr) (closure, bool) {
	in, name := c.in, ""
	switch e := e.(type) {
	case *ast.FuncLit:
		return closure{in: c.in, body: e.Body, passed: c.passed}, true
	case *ast.Ident:
		if passed, ok := c.passed[e.Name]; ok {
			return passed, true
		}
		name = e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "dptest" {
			in, name = c.in.suite, e.Sel.Name
		}
	}
	fn := in.funcs[name]
	if fn == nil || fn.Body == nil {
		return closure{}, false
	}
	return closure{in: in, body: fn, passed: map[string]closure{}}, true
}

// pass binds the parameters of a declared function to the functions it is called with.
func (c closure) pass(from closure, call *ast.CallExpr) {
	fn, ok := c.body.(*ast.FuncDecl)
	if !ok {
		return
	}
	at := 0
	for _, field := range fn.Type.Params.List {
		for _, name := range field.Names {
			if at < len(call.Args) {
				if passed, ok := from.function(call.Args[at]); ok {
					c.passed[name.Name] = passed
				}
			}
			at++
		}
	}
}

// testsIn looks tests up, with their subtests; a made name may be a case's.
func testsIn(cases []string) func(folder, name string) error {
	read := map[string]*folder{}
	return func(name, test string) error {
		f := read[name]
		if f == nil {
			var err error
			if f, err = readFolder(name); err != nil {
				return err
			}
			read[name] = f
		}
		path := strings.Split(test, "/")
		fn := f.funcs[path[0]]
		if fn == nil || !strings.HasPrefix(path[0], "Test") && !strings.HasPrefix(path[0], "Fuzz") {
			return fmt.Errorf("no test %s in %s", path[0], name)
		}
		var s subtests
		s.collect(closure{in: f, body: fn}, 0)
		known := maps.Clone(f.texts)
		for _, c := range cases {
			known[c] = true
		}
		if !s.has(path[1:], func(name string) bool { return known[name] }) {
			return fmt.Errorf("%s in %s has no subtest %s", path[0], name, strings.Join(path[1:], "/"))
		}
		return nil
	}
}

// TestSubtests: a name for each way to find one, and for each way not to.
func TestSubtests(t *testing.T) {
	known := testsIn([]string{"clusterip-basic"})
	for _, c := range []struct {
		folder, test string
		ok           bool
	}{
		{"dataplane/nftables", "TestContract", true},
		{"dataplane/nftables", "TestContract/Packets", true},
		{"dataplane/nftables", "TestContract/Packets/clusterip-basic/live", true},
		{"dataplane/nftables", "TestContract/Packets/clusterip-no-such", false},
		{"dataplane/nftables", "TestContract/Xyz", false},
		{"dataplane/nftables", "TestContract/Packets/clusterip-basic/Xyz", false},
		{"dataplane/iptables", "TestContract/nft/Packets/clusterip-basic", true},
		{"dataplane/iptables", "TestContract/Packets", false},
		{"dataplane/iptables", "TestContract/nft/Xyz", false},
		{"tools/internal/proxy", "TestLife/iptables", true},
		{"tools/internal/proxy", "TestLife/Xyz", false},
		{"dataplane/loop", "TestRetry/again", false},
		{"dataplane/loop", "TestXyz", false},
		{"dataplane/loop", "want", false},
		{"dataplane/nowhere", "TestRetry", false},
	} {
		if err := known(c.folder, c.test); (err == nil) != c.ok {
			t.Errorf("%s %s: %v, want it there: %t", c.folder, c.test, err, c.ok)
		}
	}
}
