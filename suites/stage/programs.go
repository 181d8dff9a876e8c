package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/controlplane"
	"github.com/plumbline/plumbline/fixtures/nodeimage"
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

// programsIn are those of a folder, and why it has not all.
func programsIn(dir string) (paths map[string]string, missing error) {
	paths = map[string]string{}
	for _, name := range ownPrograms() {
		paths[name] = filepath.Join(dir, name)
		if _, err := os.Stat(paths[name]); err != nil {
			missing = err
		}
	}
	return paths, missing
}

// Programs has the project's programs in a new folder, by their names: what is built while
// a run goes on is not what it starts later.
func Programs(dir string) (map[string]string, error) {
	found, err := findOwn()
	if err != nil {
		return nil, err
	}
	return keep(found, dir)
}

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
		if r.Dataplane != "kube-proxy" || p.kubeProxy != "" {
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

// keepPrograms has the project's programs in the run's folder as long as it lasts.
func (b *base) keepPrograms() (map[string]string, error) {
	bin := filepath.Join(b.opts.run.Dir, "bin")
	b.onClose(func(context.Context) error { return os.RemoveAll(bin) })
	return Programs(bin)
}
