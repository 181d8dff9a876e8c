package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/suites/tape"
)

// deploy makes the workload and its Service, unless an earlier row did, and
// waits until the load balancer has an address.
func (p *play) deploy(ctx context.Context) error {
	if p.service != nil {
		return nil
	}
	deployment := p.app.Deployment(func(d *appsv1.Deployment) {
		n := int32(p.Replicas)
		d.Spec.Replicas = &n
	})
	_, err := p.client.AppsV1().Deployments(p.app.Namespace).Create(ctx, deployment, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the workload: %w", err)
	}
	for range p.Replicas {
		if _, err := (disrupt.Admit{App: p.app, Limit: p.Timeouts.Settle}).Do(ctx, p.world()); err != nil {
			return err
		}
	}
	svc := p.app.Service()
	svc.Spec.ExternalTrafficPolicy = p.policy()
	if p.stage.LB().Front() == NoLB {
		svc.Spec.Type = corev1.ServiceTypeNodePort
	}
	families := 1
	if p.stage.DualStack() {
		both := corev1.IPFamilyPolicyRequireDualStack
		families, svc.Spec.IPFamilyPolicy = 2, &both
	}
	if p.stage.LB().Front() == OurLB && p.stage.LB().Class() != "" {
		class := p.stage.LB().Class()
		svc.Spec.LoadBalancerClass = &class
	}
	svc, err = p.client.CoreV1().Services(p.app.Namespace).Create(ctx, svc, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the workload's Service: %w", err)
	}
	if p.stage.LB().Front() == NoLB {
		p.service = svc
		p.targets = []target{{tape.Stream{Name: record.Main}, netip.AddrPortFrom(p.nodes[0].Addr4(), uint16(svc.Spec.Ports[0].NodePort))}}
		return nil
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, p.Timeouts.Settle, true, func(ctx context.Context) (bool, error) {
		svc, err := p.client.CoreV1().Services(p.app.Namespace).Get(ctx, p.app.Name, metav1.GetOptions{})
		if err != nil || len(svc.Status.LoadBalancer.Ingress) < families {
			return false, nil // asked again until the wait ends
		}
		to, err := targets(svc.Status.LoadBalancer.Ingress[:families])
		if err != nil {
			return false, fmt.Errorf("read the load balancer's address: %w", err)
		}
		p.service, p.targets = svc, to
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the load balancer's address: %w%s", err, p.serviceEvents(ctx))
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
func (p *play) serviceEvents(ctx context.Context) string {
	list, err := p.client.CoreV1().Events(p.app.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Service"})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	last := list.Items[len(list.Items)-1]
	return fmt.Sprintf(" (last event: %s: %s)", last.Reason, last.Message)
}

// calm is how long all must be answered before a load balancer of which nothing is
// known is taken to have settled.
const calm = 5 * time.Second

// answered waits until every new connection has been answered for a while.
func (p *play) answered(ctx context.Context) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	since := time.Now()
	last := errors.New("not asked")
	for time.Since(since) < calm {
		resp, err := client.Get("http://" + p.targets[0].addr.String() + "/")
		if err == nil {
			err = resp.Body.Close()
		}
		if err != nil {
			since, last = time.Now(), err
		}
		if err := kubewait.Pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %s answers all along (last: %w): %w", p.targets[0].addr, last, err)
		}
	}
	return nil
}
