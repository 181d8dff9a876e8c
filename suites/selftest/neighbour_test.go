package selftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/probe/sock"
)

// Between somebody's things, and in from the host, this many requests are made while a run
// goes on, each a connection of its own at a fixed time.
const (
	requestsOfNeighbour = 50_000 // of each of four streams
	rateOfNeighbour     = 150    // a second
	neighbourPort       = 8080

	// Each has a source port of its own for longer than anybody remembers the one before: two and
	// a half minutes, where Linux's TIME-WAIT is one and conntrack's two. A SYN that meets what is
	// left of the last connection may be answered with an ACK, and is then sent again after a
	// second. Below the ephemeral ports (32768), and above its own server's, nothing else is in use.
	firstPortOfNeighbour = 9_000
	portsOfNeighbour     = 23_000
)

// stream is one of somebody's clients and what it asks.
type stream struct {
	name   string
	in     func(func() error) error // enters the client's network namespace; nil: the host's
	target netip.AddrPort
}

// ask makes its requests, and says what became of those that were not answered.
func (s stream) ask(ctx context.Context) (lost []string, err error) {
	var open remote.Opener
	if s.in != nil {
		place, err := sock.NewPlace(s.in)
		if err != nil {
			return nil, err
		}
		defer place.Close()
		open = place.Socket
	}
	client := remote.Local(ctx, s.name, open)
	defer client.Close()
	res, err := client.Batch(ctx, remote.Batch{Network: remote.TCP, Target: s.target, Attempts: requestsOfNeighbour, Rate: rateOfNeighbour,
		SourcePort: firstPortOfNeighbour, SourcePorts: portsOfNeighbour})
	if err != nil {
		return nil, err
	}
	for i, a := range res.Attempts {
		if a.Class != remote.OK {
			lost = append(lost, fmt.Sprintf("%s: request %d: %s", s.name, i, a))
		}
	}
	if len(res.Attempts) != requestsOfNeighbour {
		err = fmt.Errorf("%s: %d requests made, want %d", s.name, len(res.Attempts), requestsOfNeighbour)
	}
	return lost, err
}

// besideNeighbours runs the harness on kind, again and again, while somebody's cluster and
// somebody's containers are asked.
func besideNeighbours(ctx context.Context, its *somebodys) {
	streams := append(its.streams(ctx), its.containers(ctx)...)
	var asked sync.WaitGroup
	lost, errs := make([][]string, len(streams)), make([]error, len(streams))
	for i, s := range streams {
		asked.Go(func() { lost[i], errs[i] = s.ask(ctx) })
	}
	done := make(chan struct{})
	go func() { asked.Wait(); close(done) }()
	runs := 0
	for over := false; !over; runs++ {
		gomega.Expect(plumbline(ctx, "run", "--cluster=kind", "--name=plumbline-beside", "--rows=plumb-nftables:fallback", "--rollouts=1", "--delay=8s", "--profile=l4-fast",
			"--results="+filepath.Join(opts.results, "beside"))).To(gomega.Succeed(), "a run beside somebody's cluster")
		select {
		case <-done:
			over = true
		default:
		}
	}
	gomega.Expect(errors.Join(errs...)).NotTo(gomega.HaveOccurred())
	fmt.Printf("beside %d runs on kind: %d requests of somebody's in %d streams, %d lost\n", runs, len(streams)*requestsOfNeighbour, len(streams), len(slices.Concat(lost...)))
	gomega.Expect(slices.Concat(lost...)).To(gomega.BeEmpty())
}

// streams are from a pod to one of another node, and from the host to that by a node port.
func (s *somebodys) streams(ctx context.Context) []stream {
	server, client := s.pod(ctx, "server", s.nodes[1].String()), s.pod(ctx, "client", s.nodes[2].String())
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "server"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "server"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(neighbourPort)}}},
	}
	made, err := s.client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
		return s.client.CoreV1().Services("default").Delete(ctx, "server", metav1.DeleteOptions{})
	})
	v4, _, err := s.nodes[3].IP()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	front := netip.AddrPortFrom(netip.MustParseAddr(v4), uint16(made.Spec.Ports[0].NodePort))
	awaitAnswer(ctx, front)
	return []stream{
		{"from a pod to one of another node", s.enter(ctx, client), netip.AddrPortFrom(netip.MustParseAddr(server.Status.PodIP), neighbourPort)},
		{"from the host to a node port", nil, front},
	}
}

func awaitAnswer(ctx context.Context, at netip.AddrPort) {
	gomega.Eventually(ctx, func() error {
		conn, err := net.DialTimeout("tcp", at.String(), time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	}).WithTimeout(time.Minute).Should(gomega.Succeed(), at.String()+" answers")
}

// pod starts a pod that answers.
func (s *somebodys) pod(ctx context.Context, name, node string) *corev1.Pod {
	key, err := remote.NewKey()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	pem, err := key.PEM()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	pods := s.client.CoreV1().Pods("default")
	_, err = pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "c", Image: s.probe, ImagePullPolicy: corev1.PullIfNotPresent, Env: []corev1.EnvVar{{Name: "PROBE_KEY", Value: string(pem)}},
			Args: []string{"serve", "--name=" + name, fmt.Sprintf("--tcp=%d", neighbourPort)},
		}}},
	}, metav1.CreateOptions{})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
		return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	var made *corev1.Pod
	gomega.Eventually(ctx, func() (bool, error) {
		made, err = pods.Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(made.Status.ContainerStatuses) == 1 && made.Status.ContainerStatuses[0].Ready, err
	}).WithTimeout(time.Minute).Should(gomega.BeTrue(), "pod "+name+" is ready")
	return made
}

// enter enters the network namespace of a pod: the one of its node's that has its address.
func (s *somebodys) enter(ctx context.Context, pod *corev1.Pod) func(func() error) error {
	info, err := s.images.Engine().Client().ContainerInspect(ctx, pod.Spec.NodeName)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	spaces, err := filepath.Glob(fmt.Sprintf("/proc/%d/root/run/netns/*", info.State.Pid))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for _, path := range spaces {
		var addrs []net.Addr
		err := netns.At(path).Do(func() (err error) { addrs, err = net.InterfaceAddrs(); return err })
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		if slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), pod.Status.PodIP+"/") }) {
			return netns.At(path).Do
		}
	}
	ginkgo.Fail("no namespace in " + pod.Spec.NodeName + " has " + pod.Status.PodIP)
	return nil
}

// containers are two of a Docker network of somebody's own: from one to the other, and from
// the host.
func (s *somebodys) containers(ctx context.Context) []stream {
	cli := s.images.Engine().Client()
	made, err := cli.NetworkCreate(ctx, "somebodys", network.CreateOptions{Driver: "bridge"})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error { return cli.NetworkRemove(ctx, made.ID) })
	key, err := remote.NewKey()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	pem, err := key.PEM()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	var infos []container.InspectResponse
	for _, name := range []string{"somebodys-server", "somebodys-client"} {
		c, err := cli.ContainerCreate(ctx, &container.Config{
			Image: s.probe, Env: []string{"PROBE_KEY=" + string(pem)}, Cmd: []string{"serve", "--name=" + name, fmt.Sprintf("--tcp=%d", neighbourPort)},
		}, &container.HostConfig{NetworkMode: container.NetworkMode(made.ID)}, nil, nil, name)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
			return cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true})
		})
		gomega.Expect(cli.ContainerStart(ctx, c.ID, container.StartOptions{})).To(gomega.Succeed())
		info, err := cli.ContainerInspect(ctx, c.ID)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		infos = append(infos, info)
	}
	at := netip.AddrPortFrom(netip.MustParseAddr(infos[0].NetworkSettings.Networks["somebodys"].IPAddress), neighbourPort)
	awaitAnswer(ctx, at)
	return []stream{
		{"from a container to another", netns.At(fmt.Sprintf("/proc/%d/ns/net", infos[1].State.Pid)).Do, at},
		{"from the host to a container", nil, at},
	}
}
