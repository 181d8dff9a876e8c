package presubmit

import (
	"cmp"
	"fmt"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// layered are the packages whose files stand on each other: none calls, by whatever way
// round, one that calls it.
var layered = []string{"lbprovider", "lbprovider/balancer", "lbprovider/records", "dataplane/agent", "dataplane/node", "dataplane/listing"}

// Load loads a package of the module at root, with its types.
func Load(root, folder string) (*packages.Package, error) {
	loaded, err := packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedImports | packages.NeedModule,
	}, "./"+folder)
	if err == nil && len(loaded) != 1 {
		err = fmt.Errorf("%d packages", len(loaded))
	}
	if err == nil && len(loaded[0].Errors) > 0 {
		err = loaded[0].Errors[0]
	}
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", folder, err)
	}
	return loaded[0], nil
}

// FileCircles are the calls (and other uses of functions and methods) by which files of p
// go round in a circle.
func FileCircles(p *packages.Package) []Finding {
	uses := map[string]map[string]Finding{} // by the file that uses, by the one that is used
	file := func(o types.Object) string { return filepath.Base(p.Fset.Position(o.Pos()).Filename) }
	for id, o := range p.TypesInfo.Uses {
		fn, ok := o.(*types.Func)
		if !ok || fn.Pkg() != p.Types {
			continue
		}
		if named := fn.Signature().Recv(); named != nil && types.IsInterface(named.Type()) {
			continue // whoever it is, he is given
		}
		at := p.Fset.Position(id.Pos())
		from, to := filepath.Base(at.Filename), file(fn)
		known, seen := uses[from][to]
		if from == to || seen && known.Line <= at.Line {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]Finding{}
		}
		uses[from][to] = Finding{File: from, Line: at.Line, Text: fmt.Sprintf("uses %s of %s", fn.Name(), to)}
	}
	return circles(uses)
}

func circles(uses map[string]map[string]Finding) []Finding {
	var reaches func(from, to string, seen map[string]bool) bool
	reaches = func(from, to string, seen map[string]bool) bool {
		if from == to {
			return true
		}
		seen[from] = true
		for next := range uses[from] {
			if !seen[next] && reaches(next, to, seen) {
				return true
			}
		}
		return false
	}
	var out []Finding
	for _, from := range slices.Sorted(maps.Keys(uses)) {
		for to, use := range uses[from] {
			if reaches(to, from, map[string]bool{}) {
				use.Text += ", which comes back to it: one of the two belongs elsewhere"
				out = append(out, use)
			}
		}
	}
	slices.SortFunc(out, func(x, y Finding) int { return cmp.Or(strings.Compare(x.File, y.File), x.Line-y.Line) })
	return out
}
