package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/ci"
	"github.com/plumbline/plumbline/ci/version"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/image"
	"github.com/plumbline/plumbline/fixtures/nodeimage"
)

// Images makes every image of a run, by build or by pull.
type Images struct {
	engine *image.Engine
	node   *nodeimage.Builder
	pins   ci.Versions
	pull   bool              // a registry answered
	own    map[string]string // the project's programs, by name
	log    *slog.Logger
}

// NewImages connects to Docker and looks whether a registry answers; that alone
// decides between pulling and building, and it says which.
func NewImages(ctx context.Context, progress io.Writer, log *slog.Logger) (*Images, error) {
	node, err := hostBuilder(log)
	if err != nil {
		return nil, err
	}
	pins, err := ci.Pins()
	if err != nil {
		return nil, err
	}
	engine, err := image.NewEngine(ctx, progress, log)
	if err != nil {
		return nil, err
	}
	node.Engine = engine
	own, err := findOwn()
	if err == nil {
		err = standsAlone(own)
	}
	if err != nil {
		return nil, err
	}
	i := &Images{engine: engine, node: node, pins: pins, pull: host.RegistryReachable(ctx), own: own, log: log}
	if i.pull {
		log.Info("an image registry answers: node, Debian and kube-proxy images are pulled")
	} else {
		log.Info("no image registry answers: all images are built here")
	}
	return i, nil
}

// KubernetesBinary is one of upstream's programs, built from the module unless
// it is in the cache. It needs no Docker.
func KubernetesBinary(ctx context.Context, name string, log *slog.Logger) (string, error) {
	b, err := hostBuilder(log)
	if err != nil {
		return "", err
	}
	return b.Binary(ctx, name)
}

// hostBuilder builds without Docker: from the source tree this program lies in, if it does,
// or from its module.
func hostBuilder(log *slog.Logger) (*nodeimage.Builder, error) {
	root, err := SourceRoot()
	if err != nil {
		root = ""
	}
	pins, err := ci.Pins()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the cache directory: %w", err)
	}
	return &nodeimage.Builder{
		Root: root, Version: version.Module(), CacheDir: filepath.Join(cache, "plumbline"), Kubernetes: pins.Kubernetes, Suite: pins.DebianSuite, Log: log,
	}, nil
}

// Engine is the Docker engine that holds the images.
func (i *Images) Engine() *image.Engine { return i.engine }

// BuildNode builds the node image even where one could be pulled.
func (i *Images) BuildNode(ctx context.Context) (string, error) { return i.node.Build(ctx) }

// Node is the kind node image: the one that is named, fetched if it is not there, or the
// pinned one.
func (i *Images) Node(ctx context.Context, named string) (string, error) {
	if named != "" {
		if ok, err := i.engine.Has(ctx, named); ok || err != nil || !i.pull {
			return named, err // who makes the cluster says if it is not there
		}
		return named, i.engine.Pull(ctx, named)
	}
	if i.pull {
		return i.pins.KindNodeImage, i.engine.Pull(ctx, i.pins.KindNodeImage)
	}
	return i.node.Build(ctx)
}

// KubeProxy is upstream's kube-proxy, and its version.
func (i *Images) KubeProxy(ctx context.Context) (ref, version string, err error) {
	if i.pull {
		ref = i.pins.KubeProxyImage
		return ref, tagOf(ref), i.engine.Pull(ctx, ref)
	}
	binary, err := i.node.Binary(ctx, "kube-proxy")
	if err == nil {
		ref, err = i.withTools(ctx, "kube-proxy", image.Files{"kube-proxy": binary})
	}
	return ref, i.pins.Kubernetes, err
}

// tagOf is an image's tag; empty if it has none.
func tagOf(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	return tag
}

// HAProxy is the load balancer's image.
func (i *Images) HAProxy(ctx context.Context) (string, error) {
	return i.fromDebian(ctx, "haproxy")
}

// Proxy is the own node agent's image, with what its backend calls.
func (i *Images) Proxy(ctx context.Context, backend string) (string, error) {
	if cluster.BackendOf(backend).Tools {
		return i.withTools(ctx, "plumb-proxy", image.Files{"plumb-proxy": i.own["plumb-proxy"]})
	}
	return i.program(ctx, "plumb-proxy")
}

// Echo is the workload's image.
func (i *Images) Echo(ctx context.Context) (string, error) { return i.program(ctx, "plumb-echo") }

// Probe is the image of plumb-probe.
func (i *Images) Probe(ctx context.Context) (string, error) { return i.program(ctx, probe) }

func (i *Images) program(ctx context.Context, name string) (string, error) {
	return i.engine.Ensure(ctx, image.Recipe{Name: name, Files: image.Files{name: i.own[name]}})
}

// withTools is an image on top of what a proxy calls.
func (i *Images) withTools(ctx context.Context, name string, files image.Files) (string, error) {
	base, err := i.fromDebian(ctx, "nat-tools")
	if err != nil {
		return "", err
	}
	return i.engine.Ensure(ctx, image.Recipe{Name: name, Base: base, Files: files})
}

func (i *Images) fromDebian(ctx context.Context, name string) (string, error) {
	base := i.pins.DebianImage
	var err error
	if i.pull {
		err = i.engine.Pull(ctx, base)
	} else {
		base, err = i.engine.BuildBase(ctx, i.pins.DebianSuite)
	}
	if err != nil {
		return "", err
	}
	return i.engine.Ensure(ctx, image.Recipe{Name: name, Base: base})
}

// Module is the module this program was built from, name@version.
func Module() string { return nodeimage.Project + "@" + version.Module() }

// SourceRoot finds the source tree whose bin/ this program lies in, or, of a test, the one
// above the working directory. One that others have put together around this program is
// none: things of it are run as root.
func SourceRoot() (string, error) {
	if exe, err := os.Executable(); err == nil {
		if root := filepath.Dir(filepath.Dir(exe)); isRoot(root) {
			return root, nil
		}
	}
	if dir, err := os.Getwd(); err == nil && Self == "" {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if isRoot(dir) {
				return dir, nil
			}
		}
	}
	return "", errors.New("this program is in no clone of Plumbline; run it from one")
}

// isRoot: the module is ours, and whose the folder is, his is the module.
func isRoot(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module "+nodeimage.Project+"\n") {
		return false
	}
	var mod, known unix.Stat_t
	err = errors.Join(unix.Stat(filepath.Join(dir, "go.mod"), &mod), unix.Stat(dir, &known))
	return err == nil && (mod.Uid == known.Uid || mod.Uid == 0)
}
