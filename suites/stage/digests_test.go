package stage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
)

type fakeInstalled struct{ config, image error }

func (f fakeInstalled) Configuration(_ context.Context, d cluster.Dataplane) (string, error) {
	return d.Backend, f.config
}

func (f fakeInstalled) Images(_ context.Context, d cluster.Dataplane) ([]string, error) {
	return []string{d.Image + "@sha256:1"}, f.image
}

func TestDigests(t *testing.T) {
	b := &base{}
	if d, err := b.digests(t.Context(), nil); d.Config != "" || d.Images != nil || err != nil {
		t.Errorf("where nothing was installed: %+v, %v", d, err)
	}
	b.installed = cluster.Dataplane{Name: "x", Backend: "nftables", Image: "i:1"}
	one, err := b.digests(t.Context(), fakeInstalled{})
	if err != nil || !strings.HasPrefix(one.Config, "sha256:") || len(one.Config) != len("sha256:")+64 || one.Images[0] != "i:1@sha256:1" {
		t.Errorf("%+v, %v", one, err)
	}
	b.installed.Backend = "iptables"
	if other, err := b.digests(t.Context(), fakeInstalled{}); err != nil || other.Config == one.Config {
		t.Errorf("another configuration, one digest: %+v, %v", other, err)
	}
	broken := errors.New("broken")
	for want, f := range map[string]fakeInstalled{"read the configuration of x: broken": {config: broken}, "name the images of x: broken": {image: broken}} {
		if _, err := b.digests(t.Context(), f); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestCommit(t *testing.T) {
	vcs := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: modified}}}
	}
	for _, tc := range []struct {
		version string
		info    *debug.BuildInfo
		want    string
	}{
		{"e644649", nil, "e644649"},
		{"e644649-dirty", &debug.BuildInfo{}, "e644649-dirty"},
		{"v0.4.0-7-ge644649-dirty", nil, "e644649-dirty"},
		{"v0.4.0", nil, ""},
		{"v0.0.0-20261125140000-e644649abcde", nil, "e644649abcde"},
		{"v0.4.1-0.20261125140000-e644649abcde", nil, "e644649abcde"},
		{"unknown", nil, ""},
		{"v0.4.0", vcs("false"), "abc"},
		{"e644649", vcs("true"), "abc-dirty"},
	} {
		if got := commit(tc.version, tc.info); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.version, got, tc.want)
		}
	}
}

// A dataplane that was installed from a file is told by what the file said, and by what
// its pods run; one that was there already is not told.
func TestExistingDigests(t *testing.T) {
	f := openForeign(t)
	if d, err := f.Digests(t.Context()); err != nil || d.Config != "" || d.Images != nil {
		t.Errorf("where nothing was installed: %+v, %v", d, err)
	}
	f.install(t.Context(), t)
	check(t, f.api.Apply(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-x", Namespace: "kube-system", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "u", Controller: new(true)}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Image: "agent:1", ImageID: "sha256:12"}}},
	}))
	d, err := f.Digests(t.Context())
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(userManifest))); err != nil || d.Config != want || !slices.Equal(d.Images, []string{"agent:1@sha256:12"}) {
		t.Errorf("%+v, %v; want the configuration %s", d, err, want)
	}
}
