package stage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/row"
)

const (
	kubeProxys = "kube-proxy: table ip kube-proxy\nkube-proxy: process kube-proxy\n"
	answers    = "somebody: 10.96.0.1:443 answers\n"
)

// inNode tells a pod that looks at a node from one that only asks, as an ordinary pod does.
func inNode(p *corev1.Pod) bool { return p.Spec.HostNetwork && p.Spec.HostPID }

func asked(p *corev1.Pod, flag string) bool {
	return slices.ContainsFunc(p.Spec.Containers[0].Args, func(a string) bool { return strings.HasPrefix(a, flag) })
}

// row is one whose dataplane is userManifest's.
func (f *foreign) row(t *testing.T) row.Row {
	t.Helper()
	f.manifest = filepath.Join(t.TempDir(), "agent.yaml")
	check(t, os.WriteFile(f.manifest, []byte(userManifest), 0o600))
	return row.Row{Dataplane: row.Manifest, Mode: f.manifest}
}

// With another Service proxy in the cluster a row is refused before anything is made; with
// --beside it is installed, and the stage says beside what, until another row is installed.
// A pod is enough that finds somebody's answers.
func TestOtherProxies(t *testing.T) {
	for name, c := range map[string]struct {
		says    func(*corev1.Pod) (string, int32)
		refusal string
		beside  []string
	}{
		"its rules": {func(p *corev1.Pod) (string, int32) {
			if inNode(p) {
				return kubeProxys, 3
			}
			return "", 0
		}, "node cp: kube-proxy: process kube-proxy and 1 more; ", []string{"node cp: kube-proxy: process kube-proxy", "node cp: kube-proxy: table ip kube-proxy"}},
		"its answers to a pod": {func(p *corev1.Pod) (string, int32) {
			if !inNode(p) && asked(p, "--connect=10.96.0.1:443") {
				return answers, 3
			}
			return "", 0
		}, "node cp: somebody: 10.96.0.1:443 answers; ", []string{"node cp: somebody: 10.96.0.1:443 answers"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := openForeign(t)
			installed := false
			f.says = func(p *corev1.Pod) (string, int32) {
				if asked(p, "--await=") {
					installed = true
					return "", 0
				}
				said, code := c.says(p)
				if installed && code != 0 { // it works on meanwhile
					said += who(said) + ": something more\n"
				}
				return said, code
			}
			check(t, f.openRun(t.Context()))
			spec := f.row(t)
			before := f.holds()
			_, _, err := f.Install(t.Context(), spec)
			if err == nil || !strings.Contains(err.Error(), c.refusal) || !strings.Contains(err.Error(), "--beside") || errors.Is(err, cluster.ErrNotRemoved) {
				t.Errorf("it says: %v", err)
			}
			if diff := cmp.Diff(before, f.holds()); diff != "" || installed || f.Beside() != nil {
				t.Errorf("made of a row that is refused (-want +got), beside %v:\n%s", f.Beside(), diff)
			}
			f.opts.Foreign.Beside = true
			_, remove, err := f.Install(t.Context(), spec)
			check(t, err)
			if diff := cmp.Diff(c.beside, f.Beside()); diff != "" || !installed {
				t.Errorf("beside (-want +got):\n%s", diff)
			}
			check(t, remove(t.Context())) // what was there before is no residue
			_, _, err = f.Install(t.Context(), row.Row{Dataplane: row.Existing})
			check(t, err)
			if f.Beside() != nil {
				t.Errorf("the row existing is beside %v", f.Beside())
			}
			check(t, f.Close(t.Context()))
		})
	}
}

// Nodes that are not tested are looked at too: agents run there.
func TestOtherProxyOnATaintedNode(t *testing.T) {
	f := openForeign(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}},
	})
	f.says = func(p *corev1.Pod) (string, int32) {
		if inNode(p) && p.Spec.NodeName == "gpu" {
			return kubeProxys, 3
		}
		return "", 0
	}
	check(t, f.openRun(t.Context()))
	_, _, err := f.Install(t.Context(), f.row(t))
	if err == nil || !strings.Contains(err.Error(), "the row's: node gpu: kube-proxy: process kube-proxy and 1 more; ") {
		t.Errorf("it says: %v", err)
	}
	check(t, f.Close(t.Context()))
}

// What looks is not to be believed if it could not look.
func TestNobodyLooked(t *testing.T) {
	f := openForeign(t)
	f.says = func(*corev1.Pod) (string, int32) {
		return "plumb-proxy: look at nftables: operation not permitted\n", 1
	}
	check(t, f.openRun(t.Context()))
	spec := f.row(t)
	_, _, err := f.Install(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "exit status 1: plumb-proxy: look at nftables: operation not permitted") {
		t.Errorf("it says: %v", err)
	}
	if len(f.api.List("pods")) > 0 {
		t.Error("its pods are left")
	}
	f.opts.Foreign.ProxyImage = ""
	_, _, err = f.Install(t.Context(), spec)
	check(t, err)
	if len(f.Beside()) != 1 || !strings.Contains(f.Beside()[0], "--proxy-image") {
		t.Errorf("without an image that looks it says: %q", f.Beside())
	}
	check(t, f.Close(t.Context()))
}

// A dataplane that does not forward is not installed, and not left; one of which something
// is left was not removed.
func TestForeignForwardsAndGoes(t *testing.T) {
	f := openForeign(t)
	silent, left := true, false
	says := func(p *corev1.Pod) (string, int32) {
		if p.Namespace != f.Run().Namespace("system") || !f.Run().Owns(p) || p.Spec.NodeName != "cp" || p.Spec.Containers[0].Image != "proxy:1" {
			t.Errorf("pod %s/%s of run %s on %s", p.Namespace, p.Name, p.Labels[cluster.Label], p.Spec.NodeName)
		}
		switch {
		case silent && asked(p, "--await=") && !p.Spec.HostNetwork:
			return "10.96.0.1:443 does not answer: i/o timeout\n", 3
		case left && inNode(p):
			return "plumb-nftables: table ip plumbline\n", 3
		}
		return "", 0
	}
	f.says = says
	check(t, f.openRun(t.Context()))
	spec := f.row(t)
	before := f.holds()
	_, _, err := f.Install(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "wait until it forwards: within 1m30s node cp: 10.96.0.1:443 does not answer: i/o timeout") {
		t.Errorf("it says: %v", err)
	}
	if diff := cmp.Diff(before, f.holds()); diff != "" {
		t.Errorf("of a dataplane that does not forward is left (-want +got):\n%s", diff)
	}
	left = true
	_, _, err = f.Install(t.Context(), spec)
	if _, ok := errors.AsType[*cluster.Residue](err); ok || err == nil { // it was there before
		t.Errorf("it says: %v", err)
	}
	left = false
	f.says = func(p *corev1.Pod) (string, int32) {
		switch tried := asked(p, "--await="); {
		case tried && !p.Spec.HostNetwork:
			left = true
			return "10.96.0.1:443 does not answer: i/o timeout\n", 3
		case left && inNode(p):
			return "plumb-nftables: table ip plumbline\n", 3
		}
		return "", 0
	}
	_, _, err = f.Install(t.Context(), spec)
	if _, ok := errors.AsType[*cluster.Residue](err); !ok || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("of one that did not forward something is left, and it says: %v", err)
	}
	silent, left = false, false
	f.says = says
	_, remove, err := f.Install(t.Context(), spec)
	check(t, err)
	left = true
	err = remove(t.Context())
	if residue, ok := errors.AsType[*cluster.Residue](err); !ok || !errors.Is(err, cluster.ErrNotRemoved) || residue.Left["cp"][0] != "plumb-nftables: table ip plumbline" {
		t.Errorf("it says: %v", err)
	}
	check(t, f.Close(t.Context())) // it was said, and is not said again
}
