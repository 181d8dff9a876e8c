package stage

import (
	"context"

	"github.com/docker/docker/api/types/filters"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/kind"
	"github.com/plumbline/plumbline/suites/scenario"
)

// Install installs a row's dataplane and returns when it forwards.
func (k *Kind) Install(ctx context.Context, r scenario.Row) (string, func(context.Context) error, error) {
	d := cluster.Dataplane{
		Name: r.String(), Own: r.Own(), Backend: r.Mode, Terminating: r.Terminating, NoLocal: r.NoLocal,
		PodSubnets: kind.PodSubnets(k.opts.IPFamily),
	}
	var err error
	if d.Own {
		d.Version = Version()
		d.Image, err = k.images.Proxy(ctx, d.Backend)
	} else {
		d.Version = k.images.Kubernetes()
		d.Image, err = k.images.KubeProxy(ctx)
	}
	if err != nil {
		return "", nil, err
	}
	if err := k.installer.Install(ctx, d); err != nil {
		return "", nil, err
	}
	return d.Version, func(ctx context.Context) error { return k.installer.Remove(ctx, d) }, nil
}

// version is set by the Makefile (git describe).
var version = "unknown"

// Version is the program's own.
func Version() string { return version }

func labelFilter(label string) filters.Args { return filters.NewArgs(filters.Arg("label", label)) }
