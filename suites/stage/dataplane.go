package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/plumbline/plumbline/ci/version"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/kind"
	"github.com/plumbline/plumbline/fixtures/nodeimage"
	"github.com/plumbline/plumbline/suites/row"
)

// dataplane is what a row asks for, without where it is to be had. A manifest is
// read now: what it says later is another dataplane.
func dataplane(r row.Row) (cluster.Dataplane, error) {
	d := cluster.Dataplane{Name: r.String(), Own: r.Own(), Backend: r.Mode, Terminating: r.Terminating, NoLocal: r.NoLocal, Version: version.String()}
	if r.Dataplane != row.Manifest {
		return d, nil
	}
	text, err := os.ReadFile(r.Mode)
	if err != nil {
		return d, fmt.Errorf("read the dataplane's manifest: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return d, fmt.Errorf("read the dataplane's manifest %s: it is empty", r.Mode)
	}
	d.Manifest, d.Backend, d.Version = string(text), "", ""
	return d, nil
}

// Install installs a row's dataplane and returns when it forwards.
func (k *Kind) Install(ctx context.Context, r row.Row) (string, func(context.Context) error, error) {
	d, err := dataplane(r)
	if err != nil {
		return "", nil, err
	}
	d.PodSubnets = kind.PodSubnets(k.opts.IPFamily)
	switch {
	case d.Own:
		d.Image, err = k.images.Proxy(ctx, d.Backend)
	case d.Manifest == "":
		d.Image, d.Version, err = k.images.KubeProxy(ctx)
	}
	if errors.Is(err, nodeimage.ErrNoGo) {
		return "", nil, cluster.Unsupported{Why: err.Error()}
	}
	if err != nil {
		return "", nil, err
	}
	return k.install(ctx, d)
}
