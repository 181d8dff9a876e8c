package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/tape"
)

// pod is the one pod of a settled workload.
type pod struct{ name, node string }

// deploy makes the workload and its Service, unless an earlier row did, and
// waits until the load balancer has an address.
func (r *runner) deploy(ctx context.Context) error {
	if r.service != nil {
		return nil
	}
	_, err := r.client.AppsV1().Deployments(r.app.Namespace).Create(ctx, r.app.Deployment(), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the workload: %w", err)
	}
	if err := r.admit(ctx, 0); err != nil {
		return err
	}
	svc := r.app.Service()
	if r.stage.LB().Front() == NoLB {
		svc.Spec.Type, svc.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyCluster
	}
	families := 1
	if r.stage.DualStack() {
		both := corev1.IPFamilyPolicyRequireDualStack
		families, svc.Spec.IPFamilyPolicy = 2, &both
	}
	if r.stage.LB().Front() == OurLB && r.stage.LB().Class() != "" {
		class := r.stage.LB().Class()
		svc.Spec.LoadBalancerClass = &class
	}
	svc, err = r.client.CoreV1().Services(r.app.Namespace).Create(ctx, svc, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the workload's Service: %w", err)
	}
	if r.stage.LB().Front() == NoLB {
		r.service = svc
		r.targets = []target{{tape.Stream{Name: record.Main}, netip.AddrPortFrom(r.nodes[0].Addr4(), uint16(svc.Spec.Ports[0].NodePort))}}
		return nil
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, r.Timeouts.Settle, true, func(ctx context.Context) (bool, error) {
		svc, err := r.client.CoreV1().Services(r.app.Namespace).Get(ctx, r.app.Name, metav1.GetOptions{})
		if err != nil || len(svc.Status.LoadBalancer.Ingress) < families {
			return false, nil // asked again until the wait ends
		}
		to, err := targets(svc.Status.LoadBalancer.Ingress[:families])
		if err != nil {
			return false, fmt.Errorf("read the load balancer's address: %w", err)
		}
		r.service, r.targets = svc, to
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the load balancer's address: %w%s", err, r.serviceEvents(ctx))
	}
	return nil
}

// targets are a stream for each address; the second is of the other family.
func targets(ingress []corev1.LoadBalancerIngress) ([]target, error) {
	var out []target
	for i, in := range ingress {
		ip, err := netip.ParseAddr(in.IP)
		if err != nil {
			return nil, err
		}
		t := target{addr: netip.AddrPortFrom(ip, workload.ServicePort)}
		if t.Name = record.Main; i > 0 {
			t.Name = record.Second
		}
		if len(ingress) > 1 {
			t.Family = record.FamilyOf(ip)
		}
		out = append(out, t)
	}
	if len(out) > 1 && out[0].Family == out[1].Family {
		return nil, fmt.Errorf("%s and %s are of one family", out[0].addr.Addr(), out[1].addr.Addr())
	}
	return out, nil
}

// serviceEvents is what the provider said of the Service, for an error.
func (r *runner) serviceEvents(ctx context.Context) string {
	list, err := r.client.CoreV1().Events(r.app.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Service"})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	last := list.Items[len(list.Items)-1]
	return fmt.Sprintf(" (last event: %s: %s)", last.Reason, last.Message)
}

// settled waits until the workload is one ready pod and the load balancer has
// exactly its node UP.
func (r *runner) settled(ctx context.Context) (pod, error) {
	limit := r.Timeouts.Settle + r.PreStop + r.Delay + r.MinReady
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var p pod
	last := "no pod seen"
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := r.client.CoreV1().Pods(r.app.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.app.Selector()})
		if err != nil {
			return false, nil // asked again until the wait ends
		}
		d, err := r.client.AppsV1().Deployments(r.app.Namespace).Get(ctx, r.app.Name, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		last = fmt.Sprintf("%d pods, %d updated", len(list.Items), d.Status.UpdatedReplicas)
		if len(list.Items) != 1 || d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != 1 || d.Status.AvailableReplicas != 1 {
			return false, nil
		}
		p = pod{list.Items[0].Name, list.Items[0].Spec.NodeName}
		return kubewait.Holds(list.Items[0], corev1.PodReady) && list.Items[0].DeletionTimestamp == nil, nil
	})
	if err != nil {
		return p, fmt.Errorf("wait until the workload has settled (%s): %w", last, err)
	}
	if r.stage.LB().Front() != OurLB {
		return p, r.answered(ctx)
	}
	return p, r.stage.LB().AwaitServers(ctx, r.app.Namespace+"/"+r.app.Name, p.node)
}

// calm is how long all must be answered before a load balancer of which nothing is
// known is taken to have settled.
const calm = 5 * time.Second

// answered waits until every new connection has been answered for a while.
func (r *runner) answered(ctx context.Context) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	since := time.Now()
	last := errors.New("not asked")
	for time.Since(since) < calm {
		resp, err := client.Get("http://" + r.targets[0].addr.String() + "/")
		if err == nil {
			err = resp.Body.Close()
		}
		if err != nil {
			since, last = time.Now(), err
		}
		if err := kubewait.Pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %s answers all along (last: %w): %w", r.targets[0].addr, last, err)
		}
	}
	return nil
}

// world is what acts are done to.
func (r *runner) world() disrupt.World {
	agents, _ := r.stage.(disrupt.Agents)
	return disrupt.World{Cluster: r.stage.Cluster(), Client: r.client, Agents: agents}
}

// admit opens the gate of the workload's new pod, after a stretch of time.
func (r *runner) admit(ctx context.Context, after time.Duration) error {
	_, err := disrupt.Admit{App: r.app, After: after, Limit: r.Timeouts.Settle}.Do(ctx, r.world())
	return err
}

// environment is where the run takes place.
func (r *runner) environment() report.Environment {
	sys := host.ThisSystem()
	env := report.Environment{
		OS: sys.OS, Kernel: sys.Kernel, CPUs: sys.CPUs, MemoryMiB: sys.MemoryMiB, Nodes: r.all, Cluster: r.stage.Kind(),
	}
	if v, err := r.client.Discovery().ServerVersion(); err == nil {
		env.Kubernetes = v.GitVersion
	}
	env.IPFamily = "IPv4"
	if r.nodes[0].Addrs[0].Is6() {
		env.IPFamily = "IPv6"
	}
	if len(r.nodes[0].Addrs) > 1 {
		env.IPFamily = "dual stack"
	}
	return env
}
