package stage

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/controlplane"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/nodeimage"
	"github.com/plumbline/plumbline/suites/row"
)

// echo is the workload's image in a lab: the name of a program.
const echo = "plumb-echo"

// probe is the program of the conformance suite's clients and servers.
const probe = "plumb-probe"

// Self is the path of this program if it is each of the project's programs when it is
// called by that one's name; empty: it is none of them. Main sets it, before anything else.
var Self string

// programs are the project's own, by name, and upstream's.
type programs struct {
	paths     map[string]string
	kubeProxy string // empty until a row wants it
	lacks     string // why there is no kube-proxy, though a row wants it

	controlPlane *controlplane.Programs // nil unless it is to be the real one
}

func (p programs) own(name string) string { return p.paths[name] }

// ownPrograms are those that a run starts.
func ownPrograms() []string { return []string{"plumb-proxy", "plumb-lb", echo, probe} }

// findOwn finds the project's programs: all of them beside this one, or else this one in
// their place. A test finds them in the source tree.
func findOwn() (map[string]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the project's programs: %w", err)
	}
	paths, missing := programsIn(filepath.Dir(exe))
	if missing == nil {
		return paths, nil
	}
	if Self != "" {
		for _, name := range ownPrograms() {
			paths[name] = Self
		}
		return paths, nil
	}
	if root, err := SourceRoot(); err == nil {
		paths, missing = programsIn(filepath.Join(root, "bin"))
	}
	if missing != nil {
		return nil, fmt.Errorf("find the project's programs: %w; run make build", missing)
	}
	return paths, nil
}

// programsIn are those of a folder, where links lead, and why it has not all.
func programsIn(dir string) (paths map[string]string, missing error) {
	paths = map[string]string{}
	for _, name := range ownPrograms() {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			missing = err
		}
		paths[name] = path
	}
	return paths, missing
}

// Program is the path of one of the project's programs, by whose name it is started: where
// another stands in for it, the run gets it by that name.
func Program(run *host.Run, name string) (string, error) {
	found, err := findOwn()
	if err != nil || filepath.Base(found[name]) == name {
		return found[name], err
	}
	dir, err := binDir(run)
	if err != nil {
		return "", err
	}
	kept, err := keep(map[string]string{name: found[name]}, dir)
	return kept[name], err
}

// binDir is where a run keeps programs: in its folder, or, where nothing may be executed
// there (many hosts mount /run so), with its temporary files.
func binDir(run *host.Run) (string, error) {
	dir := run.Dir
	if noExec(dir) {
		var err error
		if dir, err = run.TempDir(); err != nil {
			return "", err
		}
		if noExec(dir) {
			return "", fmt.Errorf("keep the project's programs: neither %s nor %s is mounted so that programs can be executed; set TMPDIR to a folder that is", run.Dir, filepath.Dir(dir))
		}
	}
	return filepath.Join(dir, "bin"), nil
}

func noExec(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.ST_NOEXEC != 0
}

// keep has programs in a new folder, by their names: what is built while a run goes on is
// not what it starts later.
func keep(found map[string]string, dir string) (map[string]string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("keep the project's programs: %w", err)
	}
	kept := map[string]string{}
	as := map[string]string{} // what has been kept, by where it was found
	for name, from := range found {
		kept[name] = filepath.Join(dir, name)
		source := cmp.Or(as[from], from)
		as[from] = kept[name]
		if err := linkOrCopy(source, kept[name]); err != nil {
			return nil, fmt.Errorf("keep the project's programs: %w", err)
		}
	}
	return kept, nil
}

// linkOrCopy: who builds a program replaces its file and does not write into it.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) {
		return copyProgram(from, to)
	}
	return err
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// controlPlane are the programs of the real one.
func controlPlane(ctx context.Context, log *slog.Logger) (*controlplane.Programs, error) {
	b, err := hostBuilder(log)
	if err != nil {
		return nil, err
	}
	return b.ControlPlane(ctx)
}

// findPrograms finds the project's programs, and builds what is asked for of Kubernetes'
// and is not in the cache.
func findPrograms(ctx context.Context, o Options, log *slog.Logger) (p programs, err error) {
	if p.paths, err = findOwn(); err != nil {
		return p, err
	}
	if o.ControlPlane == Real {
		if p.controlPlane, err = controlPlane(ctx, log); err != nil {
			return p, err
		}
	}
	for _, r := range o.Rows {
		if r.Dataplane != row.Upstream || p.kubeProxy != "" {
			continue
		}
		p.kubeProxy, err = KubernetesBinary(ctx, "kube-proxy", log)
		if errors.Is(err, nodeimage.ErrNoGo) {
			p.lacks = err.Error()
			break
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// standsAlone demands that programs run where nothing else is, as in our images.
func standsAlone(own map[string]string) error {
	for name, path := range own {
		f, err := elf.Open(path)
		if err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		dynamic := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		if err := f.Close(); err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		if dynamic {
			return fmt.Errorf("%s, for %s, is linked with libraries that an image of it alone lacks: build it with CGO_ENABLED=0", path, name)
		}
	}
	return nil
}
