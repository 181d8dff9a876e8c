package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/network"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/stage"
)

// somebodysName is a kind cluster as somebody makes one: on kind's own network, with kind's
// default subnets, kube-proxy and network plugin. It is called as one of ours could be.
const somebodysName = "plumbline-somebodys"

// somebodys is that cluster, and what a run is told of it.
type somebodys struct {
	kubeconfig         string
	echo, probe, proxy string // images that its nodes have
	client             kubernetes.Interface
	nodes              []nodes.Node // the control plane first
	kind               *kindcluster.Provider
	images             *stage.Images
	newNetwork         bool   // kind's network was not there before
	limit              []byte // of inotify instances, as it was
}

// openSomebodys makes the cluster.
func openSomebodys(ctx context.Context) (s *somebodys, err error) {
	// The environment would say that it is to be on our network.
	if err := os.Unsetenv("KIND_EXPERIMENTAL_DOCKER_NETWORK"); err != nil {
		return nil, err
	}
	s = &somebodys{kind: kindcluster.NewProvider(kindcluster.ProviderWithDocker())}
	if err := s.raiseLimit(); err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp("", "somebodys-")
	if err != nil {
		return nil, err
	}
	s.kubeconfig = filepath.Join(dir, "kubeconfig")
	if s.images, err = stage.NewImages(ctx, os.Stderr, slog.Default()); err != nil {
		return s, err
	}
	_, err = s.images.Engine().Client().NetworkInspect(ctx, "kind", network.InspectOptions{})
	s.newNetwork = err != nil
	node, kubeProxy, err := s.makeImages(ctx)
	if err != nil {
		return s, err
	}
	if err := s.kind.Create(somebodysName, s.options(node)...); err != nil {
		return s, fmt.Errorf("make somebody's cluster: %w", err)
	}
	if s.nodes, err = s.kind.ListInternalNodes(somebodysName); err != nil {
		return s, err
	}
	slices.SortFunc(s.nodes, func(a, b nodes.Node) int { return cmp.Compare(a.String(), b.String()) }) // ...-control-plane, ...-worker
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return s, err
	}
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return s, err
	}
	return s, errors.Join(s.load(ctx, kubeProxy, s.echo, s.probe, s.proxy), s.startKubeProxy(ctx, kubeProxy))
}

// inotify is the limit that a second cluster on a host goes beyond (kind's known issues, "pod
// errors due to too many open files"): somebody who has two has raised it.
const inotify = "/proc/sys/fs/inotify/max_user_instances"

func (s *somebodys) raiseLimit() (err error) {
	if s.limit, err = os.ReadFile(inotify); err != nil {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(s.limit))); err != nil || n >= 512 {
		return err
	}
	return os.WriteFile(inotify, []byte("512"), 0o644)
}

func (s *somebodys) options(node string) []kindcluster.CreateOption {
	config := &v1alpha4.Cluster{
		Networking:           v1alpha4.Networking{KubeProxyMode: v1alpha4.NFTablesProxyMode},
		KubeadmConfigPatches: []string{"kind: KubeletConfiguration\nfailCgroupV1: false\n"},
		Nodes:                []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole}},
	}
	for range 4 {
		config.Nodes = append(config.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole})
	}
	return []kindcluster.CreateOption{
		kindcluster.CreateWithV1Alpha4Config(config), kindcluster.CreateWithNodeImage(node), kindcluster.CreateWithKubeconfigPath(s.kubeconfig),
		kindcluster.CreateWithDisplayUsage(false), kindcluster.CreateWithDisplaySalutation(false), kindcluster.CreateWithWaitForReady(2 * time.Minute),
	}
}

// makeImages makes what the cluster needs, and a run on it.
func (s *somebodys) makeImages(ctx context.Context) (node, kubeProxy string, err error) {
	lock, err := host.TakeLock(ctx, stage.StateDir, time.Minute, func(string) {})
	if err != nil {
		return "", "", err
	}
	defer lock.Release()
	for into, make := range map[*string]func() (string, error){
		&node:      func() (string, error) { return s.images.Node(ctx, "") },
		&kubeProxy: func() (string, error) { ref, _, err := s.images.KubeProxy(ctx); return ref, err },
		&s.echo:    func() (string, error) { return s.images.Echo(ctx) },
		&s.probe:   func() (string, error) { return s.images.Probe(ctx) },
		&s.proxy:   func() (string, error) { return s.images.Proxy(ctx, "nftables") },
	} {
		if *into, err = make(); err != nil {
			return "", "", err
		}
	}
	return node, kubeProxy, nil
}

func (s *somebodys) load(ctx context.Context, refs ...string) error {
	archive, err := os.Create(filepath.Join(filepath.Dir(s.kubeconfig), "images.tar"))
	if err != nil {
		return err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	stream, err := s.images.Engine().Save(ctx, refs...)
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, stream)
	if err := errors.Join(err, stream.Close()); err != nil {
		return err
	}
	for _, n := range s.nodes {
		if _, err := archive.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := nodeutils.LoadImageArchive(n, archive); err != nil {
			return fmt.Errorf("load images into %s: %w", n, err)
		}
	}
	return nil
}

// startKubeProxy gives kubeadm's kube-proxy, for which there was no image yet, the one that
// was loaded, and waits until it is at work everywhere.
func (s *somebodys) startKubeProxy(ctx context.Context, image string) error {
	sets, pods := s.client.AppsV1().DaemonSets("kube-system"), s.client.CoreV1().Pods("kube-system")
	set, err := sets.Get(ctx, "kube-proxy", metav1.GetOptions{})
	if err != nil {
		return err
	}
	wanted := set.Spec.Template.Spec.Containers[0].Image
	for _, n := range s.nodes {
		if wanted == image {
			break // it was pulled, by its own name
		}
		if err := n.CommandContext(ctx, "ctr", "--namespace=k8s.io", "images", "tag", "--force", "docker.io/"+image, wanted).Run(); err != nil {
			return fmt.Errorf("name kube-proxy's image in %s: %w", n, err)
		}
	}
	// It is told the API by a name that only Docker's resolver knows, which pods cannot ask.
	server, _, err := s.nodes[0].IP()
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"hostAliases":[{"ip":%q,"hostnames":[%q]}]}}}}`, server, somebodysName+"-control-plane")
	if _, err := sets.Patch(ctx, "kube-proxy", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	// A rollout would wait for pods that cannot start.
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "k8s-app=kube-proxy"}); err != nil {
		return err
	}
	gomega.Eventually(ctx, func() (int32, error) {
		set, err := sets.Get(ctx, "kube-proxy", metav1.GetOptions{})
		if err != nil || set.Status.ObservedGeneration < set.Generation || set.Status.UpdatedNumberScheduled == 0 {
			return -1, err
		}
		return int32(len(s.nodes)) - min(set.Status.UpdatedNumberScheduled, set.Status.NumberAvailable), nil
	}).WithTimeout(2*time.Minute).Should(gomega.BeZero(), "kube-proxy is at work on every node")
	gomega.Eventually(ctx, func() (string, error) {
		list, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		for _, p := range list.Items {
			for _, c := range p.Status.ContainerStatuses {
				if !c.Ready {
					return p.Name, nil
				}
			}
		}
		return "", err
	}).WithTimeout(2*time.Minute).Should(gomega.BeEmpty(), "and every pod ready")
	return nil
}

// exec runs a command in a node.
func (s *somebodys) exec(ctx context.Context, n nodes.Node, argv ...string) (string, error) {
	var out, said strings.Builder
	if err := n.CommandContext(ctx, argv[0], argv[1:]...).SetStdout(&out).SetStderr(&said).Run(); err != nil {
		return "", fmt.Errorf("%s in node %s: %w: %s", strings.Join(argv, " "), n, err, said.String())
	}
	return out.String(), nil
}

// tables lists the tables of our dataplanes in its nodes.
func (s *somebodys) tables(ctx context.Context) (out []string, err error) {
	for _, n := range s.nodes {
		text, err := s.exec(ctx, n, "nft", "list", "tables")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if name := strings.Fields(line); len(name) == 3 && name[2] == "plumbline" {
				out = append(out, n.String()+": "+strings.TrimSpace(line))
			}
		}
	}
	return out, nil
}

// removeKubeProxy takes away its kube-proxy, with its rules.
func (s *somebodys) removeKubeProxy(ctx context.Context) error {
	if err := s.client.AppsV1().DaemonSets("kube-system").Delete(ctx, "kube-proxy", metav1.DeleteOptions{}); err != nil {
		return err
	}
	gomega.Eventually(ctx, func() (int, error) {
		list, err := s.client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-proxy"})
		return len(list.Items), err
	}).WithTimeout(takeDown).Should(gomega.BeZero(), "its pods have ended")
	for _, n := range s.nodes {
		// nft before 1.0.7 has no destroy.
		if _, err := s.exec(ctx, n, "nft", "add table ip kube-proxy; delete table ip kube-proxy; add table ip6 kube-proxy; delete table ip6 kube-proxy"); err != nil {
			return err
		}
	}
	return nil
}

// close removes the cluster, and kind's network if it came with it.
func (s *somebodys) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	err := errors.Join(s.kind.Delete(somebodysName, s.kubeconfig), os.RemoveAll(filepath.Dir(s.kubeconfig)), os.WriteFile(inotify, s.limit, 0o644))
	if s.newNetwork && err == nil {
		err = s.images.Engine().Client().NetworkRemove(ctx, "kind")
	}
	return err
}
