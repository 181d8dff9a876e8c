package stage

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/host/clean"
	"github.com/plumbline/plumbline/fixtures/need"
)

// engine has one container of a run, which comes back until it has been removed twice: what
// was about to end has made it again.
type engine struct {
	clean.Engine
	left int
}

func (e *engine) ContainerList(context.Context, container.ListOptions) ([]container.Summary, error) {
	if e.left == 0 {
		return nil, nil
	}
	return []container.Summary{{ID: "lb", Labels: map[string]string{"io.plumbline.run": "run-aaaaa"}}}, nil
}

func (e *engine) ContainerRemove(context.Context, string, container.RemoveOptions) error {
	e.left--
	return nil
}

// A dead run that uses Docker is left by who cannot look there, and goes when nothing of it
// is left.
func TestRemoveDead(t *testing.T) {
	need.Root(t)
	state, log := t.TempDir(), slog.New(slog.DiscardHandler)
	r := &host.Run{ID: "run-aaaaa", Dir: filepath.Join(state, host.RunsDir, "run-aaaaa")}
	check(t, os.MkdirAll(r.Dir, 0o755))
	check(t, r.UseDocker())
	e := &engine{left: 2}
	for _, tc := range []struct {
		name string
		with clean.Engine
		gone bool
	}{{"run", nil, false}, {"another", e, false}, {"run", e, true}} {
		dead, err := removeDead(t.Context(), state, tc.name, tc.with, log)
		check(t, err)
		_, err = os.Stat(r.Dir)
		if os.IsNotExist(err) != tc.gone || (len(dead) == 1) != tc.gone {
			t.Errorf("%s, engine %v: %v, %v", tc.name, tc.with != nil, dead, err)
		}
	}
	if e.left != 0 {
		t.Errorf("%d containers are left", e.left)
	}
}
