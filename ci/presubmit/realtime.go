package presubmit

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
)

// RealTime lists the tests whose result can depend on how busy the host is, as
// "folder name": those that use clocks, deadlines, signals, processes, sockets or
// namespaces, themselves or through functions of their folder. It errs on the side of
// listing: functions go by their name, and of what a test calls elsewhere the package's
// name decides.
func RealTime(files []*File) []string {
	packages := map[string]*testPackage{}
	for _, f := range files {
		p := packages[f.Folder()]
		if p == nil {
			p = &testPackage{uses: map[string][]string{}, real: map[string]bool{}}
			packages[f.Folder()] = p
		}
		p.read(f)
	}
	var out []string
	for folder, p := range packages {
		p.spread()
		for _, name := range p.tests {
			if p.real[name] {
				out = append(out, folder+" "+name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// testPackage are the functions of a folder; methods go by their name alone.
type testPackage struct {
	tests []string
	uses  map[string][]string // by function, the names in its body
	real  map[string]bool     // functions that are real by themselves or by what they use
}

var isTest = regexp.MustCompile(`^Test[^a-z]`)

func (p *testPackage) read(f *File) {
	imports := f.importNames()
	for _, d := range f.AST.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		name := fn.Name.Name
		if f.Test && fn.Recv == nil && isTest.MatchString(name) && name != "TestMain" {
			p.tests = append(p.tests, name)
		}
		fake := bubbled(fn, imports)
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				pkg, ok := n.X.(*ast.Ident)
				if ok && isReal(imports[pkg.Name], n.Sel.Name, fake) {
					p.real[name] = true
				}
				p.uses[name] = append(p.uses[name], n.Sel.Name)
			case *ast.Ident:
				p.uses[name] = append(p.uses[name], n.Name)
			}
			return true
		})
	}
}

// bubbled tells whether a function makes a bubble of synctest, in which time waits for
// nobody.
func bubbled(fn *ast.FuncDecl, imports map[string]string) (found bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			pkg, ok := s.X.(*ast.Ident)
			found = found || ok && imports[pkg.Name] == "testing/synctest"
		}
		return true
	})
	return found
}

// spread marks as real what uses something real, until nothing more is found.
func (p *testPackage) spread() {
	for more := true; more; {
		more = false
		for name, uses := range p.uses {
			if !p.real[name] && slices.ContainsFunc(uses, func(u string) bool { return p.real[u] }) {
				p.real[name], more = true, true
			}
		}
	}
}

// importNames are the paths of what a file imports, by the name it has there; of this
// module without the module's path.
func (f *File) importNames() map[string]string {
	out := map[string]string{}
	for i, p := range f.Imports() {
		name := path.Base(p)
		if n := f.AST.Imports[i].Name; n != nil {
			name = n.Name
		}
		out[name] = p
	}
	return out
}

// realSymbols are what makes a test real, by package.
var realSymbols = map[string]*regexp.Regexp{
	"time":                      regexp.MustCompile(`^(Sleep|After|AfterFunc|Tick|NewTicker|NewTimer|Since|Until)$`),
	"context":                   regexp.MustCompile(`^With(Timeout|Deadline)`),
	"net":                       regexp.MustCompile(`^(Listen|Dial|Pipe)`),
	"net/http/httptest":         regexp.MustCompile(`^New(Unstarted|TLS)?Server$`),
	"os/exec":                   regexp.MustCompile(`^Command`),
	"os/signal":                 regexp.MustCompile(`.`),
	"syscall":                   regexp.MustCompile(`^(Kill|SIG[A-Z]|Socket|Exec)`),
	"golang.org/x/sys/unix":     regexp.MustCompile(`^(Kill|SIG[A-Z]|Socket|Clock|Flock|Pidfd)`),
	"github.com/onsi/gomega":    regexp.MustCompile(`^(Eventually|Consistently)`),
	"github.com/onsi/ginkgo/v2": regexp.MustCompile(`^RunSpecs$`),
	"fixtures/need":             regexp.MustCompile(`^(Root|Docker)$`),
	"fixtures/netns":            regexp.MustCompile(`.`),
	"dataplane/dptest":          regexp.MustCompile(`^(Contract|NewNet|Packets|Sequence|Faults|Interrupted|Histories|Random|Distribution|Connections|Expiry)$`),
	"github.com/rogpeppe/go-internal/testscript": regexp.MustCompile(`^Run`),
}

// isReal tells of a symbol of a package; clocks are not where time is fake.
func isReal(from, symbol string, fake bool) bool {
	r := realSymbols[from]
	return r != nil && r.MatchString(symbol) && (!fake || from != "time" && from != "context")
}
