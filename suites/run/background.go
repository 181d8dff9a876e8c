package run

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/suites/scenario"
)

const groupSize = 10 // pods of a Deployment, endpoints of a Service

// background is the namespace of all that.
func (r *runner) background() string { return r.stage.Run().Namespace("background") }

// backgroundApp is the Deployment of one group.
func (r *runner) backgroundApp(group int) workload.Spec {
	return workload.Spec{Namespace: r.background(), Name: fmt.Sprintf("background-%d", group), Image: r.stage.Echo(), Grace: time.Second}
}

// fill makes the background and waits until every pod is ready and every Service
// has its endpoints.
func (r *runner) fill(ctx context.Context) error {
	if r.Background == (scenario.Background{}) {
		return nil
	}
	start := time.Now()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.background(), Labels: r.stage.Run().Labels()}}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make namespace %s: %w", ns.Name, err)
	}
	groups := (r.Background.Pods + groupSize - 1) / groupSize
	for g := range groups {
		d := r.backgroundApp(g).Deployment(func(d *appsv1.Deployment) {
			n := int32(min(groupSize, r.Background.Pods-g*groupSize))
			d.Spec.Replicas = &n
			d.Spec.Template.Spec.ReadinessGates, d.Spec.Template.Spec.Affinity = nil, nil
		})
		if _, err := r.client.AppsV1().Deployments(d.Namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make Deployment %s: %w", d.Name, err)
		}
	}
	for n := range r.Background.Services {
		svc := r.backgroundApp(n % groups).Service(func(s *corev1.Service) {
			s.Name = fmt.Sprintf("background-%d", n)
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, ""
		})
		if _, err := r.client.CoreV1().Services(svc.Namespace).Create(ctx, svc, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make Service %s: %w", svc.Name, err)
		}
	}
	endpoints, err := r.filled(ctx)
	if err != nil {
		return err
	}
	r.log.Info("background is up", "pods", r.Background.Pods, "services", r.Background.Services, "endpoints", endpoints,
		"took", time.Since(start).Round(10*time.Millisecond))
	return nil
}

// filled waits for all pods and endpoints, and counts these.
func (r *runner) filled(ctx context.Context) (endpoints int, err error) {
	groups := (r.Background.Pods + groupSize - 1) / groupSize
	want := 0
	for n := range r.Background.Services {
		want += min(groupSize, r.Background.Pods-n%groups*groupSize)
	}
	ready := 0
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, r.Timeouts.Background, true, func(ctx context.Context) (bool, error) {
		list, err := r.client.AppsV1().Deployments(r.background()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil // asked again until the wait ends
		}
		ready = 0
		for _, d := range list.Items {
			ready += int(d.Status.AvailableReplicas)
		}
		if ready < r.Background.Pods {
			return false, nil
		}
		endpoints, err = r.countEndpoints(ctx)
		return err == nil && endpoints == want, nil
	})
	if err != nil {
		return endpoints, fmt.Errorf("wait for the background (%d of %d pods, %d of %d endpoints): %w", ready, r.Background.Pods, endpoints, want, err)
	}
	return endpoints, nil
}

// countEndpoints counts the ready ones of the background's first family.
func (r *runner) countEndpoints(ctx context.Context) (int, error) {
	kind := discoveryv1.AddressTypeIPv4
	if r.nodes[0].Addrs[0].Is6() {
		kind = discoveryv1.AddressTypeIPv6
	}
	list, err := r.client.DiscoveryV1().EndpointSlices(r.background()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			if s.AddressType == kind && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				n++
			}
		}
	}
	return n, nil
}
