package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/controlplane"
)

// echo is the workload's image in a lab: the name of a program.
const echo = "plumb-echo"

// probe is the program of the conformance suite's clients and servers.
const probe = "plumb-probe"

// programs are the project's own, and upstream's kube-proxy.
type programs struct {
	bin       string
	kubeProxy string // empty until a row wants it

	controlPlane *controlplane.Programs // nil unless it is to be the real one
}

func (p programs) own(name string) string { return filepath.Join(p.bin, name) }

// ownPrograms are those of a lab.
func ownPrograms() []string { return []string{"plumb-proxy", "plumb-lb", echo, probe} }

// keep has the project's programs in a folder too: what is built while a run goes on is
// not what it starts later.
func (p programs) keep(dir string) (programs, error) {
	kept := p
	kept.bin = dir
	if err := os.Mkdir(dir, 0o755); err != nil {
		return p, fmt.Errorf("keep the project's programs: %w", err)
	}
	for _, name := range ownPrograms() {
		err := os.Link(p.own(name), kept.own(name)) // make replaces a file, it does not write into it
		if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) {
			err = copyProgram(p.own(name), kept.own(name))
		}
		if err != nil {
			return p, fmt.Errorf("keep the project's programs: %w", err)
		}
	}
	return kept, nil
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
func findPrograms(ctx context.Context, o Options, log *slog.Logger) (programs, error) {
	root, err := SourceRoot()
	if err != nil {
		return programs{}, err
	}
	p := programs{bin: filepath.Join(root, "bin")}
	for _, name := range ownPrograms() {
		if _, err := os.Stat(p.own(name)); err != nil {
			return p, fmt.Errorf("find the project's programs: %w; run make build", err)
		}
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
		if p.kubeProxy, err = KubernetesBinary(ctx, "kube-proxy", log); err != nil {
			return p, err
		}
	}
	return p, nil
}
