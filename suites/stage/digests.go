package stage

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/plumbline/plumbline/ci/version"
	"github.com/plumbline/plumbline/fixtures/cluster"
)

// Digests tell a run's parts from others of the same name. What a stage does not know
// is empty.
type Digests struct {
	Config string   // of the dataplane's configuration as it was installed
	Images []string // of the dataplane: name@digest, in a lab of its programs
}

// installed is what tells what the agents of a dataplane are.
type installed interface {
	Configuration(context.Context, cluster.Dataplane) (string, error)
	Images(context.Context, cluster.Dataplane) ([]string, error)
}

// digests are those of the dataplane that was installed last; none if none was.
func (b *base) digests(ctx context.Context, agents installed) (d Digests, err error) {
	if b.installed.Name == "" {
		return d, nil
	}
	text, err := agents.Configuration(ctx, b.installed)
	if err != nil {
		return d, fmt.Errorf("read the configuration of %s: %w", b.installed.Name, err)
	}
	d.Config = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
	if d.Images, err = agents.Images(ctx, b.installed); err != nil {
		return d, fmt.Errorf("name the images of %s: %w", b.installed.Name, err)
	}
	return d, nil
}

// Digests are those of the dataplane's programs.
func (l *Lab) Digests(ctx context.Context) (Digests, error) { return l.digests(ctx, l.agents) }

// Digests are those of the dataplane, if it was installed here.
func (e *Existing) Digests(ctx context.Context) (Digests, error) { return e.digests(ctx, e.agents) }

// Digests are those of the dataplane.
func (k *Kind) Digests(ctx context.Context) (Digests, error) { return k.digests(ctx, k.agents) }

// NodeImage is none: the nodes are namespaces.
func (*Lab) NodeImage(context.Context) (string, error) { return "", nil }

// NodeImage is not known.
func (*Existing) NodeImage(context.Context) (string, error) { return "", nil }

// NodeImage is what the cluster was made from.
func (k *Kind) NodeImage(ctx context.Context) (string, error) {
	name := k.cluster.Config().NodeImage
	if strings.Contains(name, "@") {
		return name, nil
	}
	info, err := k.images.Engine().Client().ImageInspect(ctx, name)
	if err != nil {
		return "", fmt.Errorf("name the node image %s: %w", name, err)
	}
	return name + "@" + info.ID, nil
}

// Commit is that of the source the program was built from, with -dirty if it was
// changed: as the Go command noted it or else as the version ends (git describe, or a
// module's of no tag).
// Empty: nobody has said.
func Commit() string {
	info, _ := debug.ReadBuildInfo() // nil: there is none
	return commit(version.String(), info)
}

var describedCommit = regexp.MustCompile(`^(?:.*-g|v[0-9]+\.[0-9]+\.[0-9]+-(?:.*\.)?[0-9]{14}-)?([0-9a-f]{7,40}(?:-dirty)?)$`) // const

func commit(version string, info *debug.BuildInfo) string {
	noted := map[string]string{}
	if info != nil {
		for _, s := range info.Settings {
			noted[s.Key] = s.Value
		}
	}
	if c := noted["vcs.revision"]; c != "" {
		if noted["vcs.modified"] == "true" {
			c += "-dirty"
		}
		return c
	}
	if m := describedCommit.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return ""
}
