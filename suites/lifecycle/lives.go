package lifecycle

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline/plumbline/fixtures/workload"
)

// script is one life: the workload it is about, and what is done to it.
type script struct {
	name  string
	parts []string // of its pods, in the order in which they are made
	spec  workload.Spec
	pod   func(*corev1.PodSpec) // changes the workload's pod
	play  func(context.Context, *player) error
}

// calm is for how long nothing may happen before what is to stay counts as staying.
// A kubelet looks at its containers and probes once a second.
const calm = 4 * time.Second

// scripts are all lives. Each deletion is far from what was before it, so that it
// meets no write that is on its way.
func scripts() []script {
	one := []string{"pod"}
	return []script{
		{name: "graceful", parts: one, spec: workload.Spec{PreStop: 2 * time.Second, Delay: 3 * time.Second, Grace: 20 * time.Second}, play: admitted},
		{name: "unready", parts: one, spec: workload.Spec{Delay: 3 * time.Second, Grace: 20 * time.Second, Unready: true}, pod: ungated, play: served},
		{name: "stubborn", parts: one, spec: workload.Spec{Delay: 10 * time.Second, Grace: 3 * time.Second}, pod: ungated, play: served},
		{name: "rollout", parts: []string{"old", "new"}, spec: workload.Spec{Delay: 3 * time.Second, Grace: 20 * time.Second}, play: rollout},
		{name: "crash", parts: one, spec: workload.Spec{Grace: 2 * time.Second}, pod: crashing, play: crash},
		{name: "unfit", parts: one, spec: workload.Spec{Grace: 2 * time.Second}, pod: unfit, play: unserved},
		{name: "ailing", parts: one, spec: workload.Spec{Delay: time.Second, Grace: 5 * time.Second}, pod: ailing, play: restart},
		{name: "forced", parts: one, spec: workload.Spec{Delay: time.Second, Grace: 20 * time.Second}, pod: ungated, play: forced},
		{name: "imageless", parts: one, spec: workload.Spec{Grace: 2 * time.Second}, pod: imageless, play: unserved},
	}
}

func ungated(p *corev1.PodSpec) { p.ReadinessGates = nil }

// crashing ends at once: a flag that the program does not have.
func crashing(p *corev1.PodSpec) {
	ungated(p)
	p.Containers[0].Args = []string{"--no-such-flag"}
}

// unfit answers its readiness probe with 404.
func unfit(p *corev1.PodSpec) {
	ungated(p)
	p.Containers[0].ReadinessProbe.HTTPGet.Path = "/nowhere"
}

// ailing answers its liveness probe with 404 until it is ended.
func ailing(p *corev1.PodSpec) {
	ungated(p)
	p.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/nowhere", Port: intstr.FromString("http")}},
		PeriodSeconds: 2, FailureThreshold: 5,
	}
}

func imageless(p *corev1.PodSpec) {
	ungated(p)
	p.Containers[0].Image, p.Containers[0].ImagePullPolicy = "plumbline/no-such-image:1", corev1.PullNever
}

// admitted: a pod waits for its readiness gate, serves, and is deleted.
func admitted(ctx context.Context, p *player) error {
	return p.steps(ctx,
		p.makePod,
		p.await(1, facetCondition+"ContainersReady", "True"),
		p.calm,
		p.admit,
		p.await(1, facetEndpoint, "ready serving"),
		p.calm,
		p.deletePod(nil),
		p.await(1, facetObject, "gone"),
	)
}

// served: a pod serves and is deleted.
func served(ctx context.Context, p *player) error {
	return p.steps(ctx,
		p.makePod,
		p.await(1, facetEndpoint, "ready serving"),
		p.calm,
		p.deletePod(nil),
		p.await(1, facetObject, "gone"),
	)
}

// forced: a pod serves and is deleted with no grace.
func forced(ctx context.Context, p *player) error {
	none := int64(0)
	return p.steps(ctx,
		p.makePod,
		p.await(1, facetEndpoint, "ready serving"),
		p.calm,
		p.deletePod(&none),
		p.await(1, facetObject, "gone"),
	)
}

// unserved: a pod that never serves stays as it is, and is deleted.
func unserved(ctx context.Context, p *player) error {
	return p.steps(ctx,
		p.makePod,
		p.await(1, facetEndpoint, "none"),
		p.calm,
		p.deletePod(nil),
		p.await(1, facetObject, "gone"),
	)
}

// crash: a container ends at once, is started again twice, and waits.
func crash(ctx context.Context, p *player) error {
	return p.steps(ctx,
		p.makePod,
		p.await(1, facetContainer+".restarts", "2"),
		p.calm,
		p.deletePod(nil),
		p.await(1, facetObject, "gone"),
	)
}

// restart: a container is ended for its liveness, started again, and deleted
// before it fails again.
func restart(ctx context.Context, p *player) error {
	return p.steps(ctx,
		p.makePod,
		p.await(1, facetContainer+".restarts", "1"),
		p.calm,
		p.deletePod(nil),
		p.await(1, facetObject, "gone"),
	)
}

// rollout: a Deployment replaces its one pod by one on another node.
func rollout(ctx context.Context, p *player) error {
	return p.steps(ctx,
		p.makeDeployment,
		p.await(1, facetCondition+"ContainersReady", "True"),
		p.admit,
		p.await(1, facetEndpoint, "ready serving"),
		p.calm,
		p.restart,
		p.await(2, facetCondition+"ContainersReady", "True"),
		p.calm,
		p.admit,
		p.await(1, facetObject, "gone"),
	)
}

// object is the workload of the life's spec.
func (s script) object(namespace, image string) *appsv1.Deployment {
	spec := s.spec
	spec.Namespace, spec.Name, spec.Image = namespace, s.name, image
	return spec.Deployment(func(d *appsv1.Deployment) {
		if s.pod != nil {
			s.pod(&d.Spec.Template.Spec)
		}
	})
}
