package presubmit

import (
	"path"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/cluster"
)

// The leaves: anyone may import them, they import only each other.
var leaves = []string{"fixtures/netns", "fixtures/cgroup", "fixtures/record", "fixtures/need", "fixtures/api"}

// Siblings that turn a plan into kernel state, each alone.
var backends = siblings()

func siblings() (out []string) {
	for _, b := range cluster.Backends() {
		out = append(out, "dataplane/"+b.Name)
	}
	return out
}

// Packages that only compute: no I/O, no log.
var pure = []string{"dataplane/plan", "lbprovider/lbplan", "lbprovider/profile", "suites/verdict", "suites/conformance/cell"}

// net/http is not among them: its status numbers are no effect (see Pure).
var effects = []string{"os", "os/exec", "net", "log", "log/slog", "syscall", "golang.org/x/sys/unix", "io/ioutil"}

// Kubernetes' types stop where they enter, and where Events leave.
var apiFolders = []string{"dataplane/objects", "dataplane/podsapi", "dataplane/watch", "dataplane/agent"}

// The dataplane's clients of the API: one reads, one writes Events.
var clientFolders = []string{"dataplane/watch", "dataplane/agent"}

// Imports holds the import rules of the architecture.
func Imports(f *File) []Finding {
	var out []Finding
	for i, target := range f.Imports() {
		if why := forbidden(f.Folder(), target, f.Test); why != "" {
			out = append(out, f.at(f.AST.Imports[i], "imports %s: %s", target, why))
		}
	}
	return out
}

// forbidden says why a folder must not import another, or a foreign package.
func forbidden(from, to string, test bool) string {
	within := func(folder, top string) bool { return folder == top || strings.HasPrefix(folder, top+"/") }
	toLeaf, fromLeaf := slices.Contains(leaves, to), slices.Contains(leaves, from)
	backend := slices.IndexFunc(backends, func(b string) bool { return within(from, b) })
	switch {
	case within(to, "tools") && !(within(from, "tools") && within(to, "tools/internal")):
		return "nothing imports tools, but tools their own internal ones"
	case fromLeaf && !toLeaf && isOurs(to):
		return "a leaf imports only leaves"
	case within(from, "dataplane") && within(to, "lbprovider"), within(from, "lbprovider") && within(to, "dataplane"):
		return "dataplane and lbprovider do not know each other"
	case within(from, "fixtures") && (within(to, "dataplane") || within(to, "lbprovider") || within(to, "suites")):
		return "fixtures import neither dataplane nor lbprovider nor suites: what is under test arrives as a value"
	case (within(from, "dataplane") || within(from, "lbprovider")) && within(to, "suites"):
		return "what is under test does not know the suites"
	case within(from, "dataplane") && within(to, "fixtures") && !test && !within(from, "dataplane/dptest"):
		return "of the dataplane only dptest and tests import fixtures"
	case (within(from, "dataplane") || within(from, "lbprovider")) && within(to, "fixtures") && !toLeaf:
		return "of the fixtures only the leaves: " + strings.Join(leaves, ", ")
	case backend >= 0 && (within(to, "dataplane/loop") || within(to, "dataplane/watch")):
		return "a backend imports plan, never loop or watch"
	case backend >= 0 && !within(to, backends[backend]) && slices.ContainsFunc(backends, func(b string) bool { return within(to, b) }):
		return "a backend never imports another"
	case within(from, "dataplane") && within(to, "k8s.io/client-go") && !slices.ContainsFunc(clientFolders, func(c string) bool { return within(from, c) }):
		return "client-go is for " + strings.Join(clientFolders, ", ")
	case within(from, "dataplane") && within(to, "k8s.io/api") && !slices.Contains(apiFolders, from):
		return "k8s.io/api stops in " + strings.Join(apiFolders, ", ")
	case !test && slices.ContainsFunc(pure, func(p string) bool { return within(from, p) }) && slices.Contains(effects, to):
		return "this package only computes: no I/O, no log"
	}
	return ""
}

// isOurs: a path of this module, which Imports has without the module's name.
func isOurs(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return slices.Contains([]string{"suites", "lbprovider", "dataplane", "fixtures", "tools", "ci"}, path.Clean(first))
}
