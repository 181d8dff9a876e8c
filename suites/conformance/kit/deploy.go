package kit

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline/plumbline/fixtures/cluster"
)

//go:embed probes.yaml
var probes string

// spread puts the nodes that take pods into three zones, in turn, in the order of their names.
func (e *Env) spread(ctx context.Context) error {
	nodes, err := e.stage.Cluster().Nodes(ctx)
	if err != nil {
		return err
	}
	nodes = slices.DeleteFunc(nodes, func(n cluster.Node) bool { return n.ControlPlane })
	slices.SortFunc(nodes, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	for i, n := range nodes {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"zone-%c"}}}`, corev1.LabelTopologyZone, 'a'+i%3)
		if _, err := e.client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("put node %s into a zone: %w", n.Name, err)
		}
	}
	return nil
}

func (e *Env) deploy(ctx context.Context) error {
	if err := e.stage.Cluster().Load(ctx, e.cfg.Image); err != nil {
		return err
	}
	manifest, err := e.manifest(ctx)
	if err != nil {
		return err
	}
	applier, err := cluster.NewApplier(e.stage.Cluster().RESTConfig(), e.stage.Run())
	if err != nil {
		return err
	}
	if err := e.ownNamespace(ctx); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := applier.Apply(ctx, manifest); err != nil {
		return err
	}
	return e.ownNamespace(ctx)
}

// ownNamespace makes sure that the namespace is the run's: it is deleted in the end, with
// all that is in it.
func (e *Env) ownNamespace(ctx context.Context) error {
	ns, err := e.client.CoreV1().Namespaces().Get(ctx, e.namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read namespace %s: %w", e.namespace, err)
	}
	if !e.stage.Run().Owns(ns) {
		return fmt.Errorf("namespace %s %w", e.namespace, cluster.ErrTaken)
	}
	e.uid = ns.UID
	return nil
}

// manifest is that of the probes.
func (e *Env) manifest(ctx context.Context) (string, error) {
	t, err := template.New("probes").Parse(probes)
	if err != nil {
		return "", fmt.Errorf("read the probes' manifest: %w", err)
	}
	key, err := e.key.PEM()
	if err != nil {
		return "", err
	}
	if e.ranges, err = e.findRanges(ctx); err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = t.Execute(&text, map[string]any{
		"Namespace": e.namespace, "Image": e.cfg.Image, "Control": controlPort,
		"Port": PodPort, "Other": OtherPort, "Host": HostPort, "Pods": []string{"probe-a", "probe-b"},
		"Key": base64.StdEncoding.EncodeToString(key), "Ranges": e.ranges.String(),
	})
	if err != nil {
		return "", fmt.Errorf("write the probes' manifest: %w", err)
	}
	return text.String(), nil
}
