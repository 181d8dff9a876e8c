package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/fixtures/workload"
)

// lifeLimit is how long one life may take; the longest takes half of it.
const lifeLimit = time.Minute

// look is how often a life looks at what was seen.
const look = 20 * time.Millisecond

// Place is where lives are played.
type Place struct {
	Client    kubernetes.Interface
	Run       cluster.Run
	Image     string // of the workload
	Namespace string // to be made
	Files     string // where a lab keeps the output of programs
	Lives     *regexp.Regexp
}

// Play plays all lives of the script side by side.
func Play(ctx context.Context, at Place) (Run, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.Namespace, Labels: at.Run.Labels()}}
	if _, err := at.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("make namespace %s: %w", at.Namespace, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	said := programs{at.Client, at.Namespace, at.Files}
	var seen *observer
	seen = newObserver(func(life, pod string) {
		all.Go(func() {
			if err := said.follow(ctx, pod, func(e Event) { seen.said(life, e) }); err != nil {
				cancel(err)
			}
		})
	})
	started := make(chan struct{})
	all.Go(func() {
		if err := seen.watch(ctx, at.Client, at.Namespace, started); err != nil {
			cancel(err)
		}
	})
	select {
	case <-started:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	list := slices.DeleteFunc(scripts(), func(s script) bool { return !at.Lives.MatchString(s.name) })
	run := make(Run, len(list))
	var lives sync.WaitGroup
	for i, s := range list {
		lives.Go(func() {
			p := &player{Place: at, script: s, seen: seen, programs: said}
			var err error
			if run[i], err = p.life(ctx); err != nil {
				cancel(fmt.Errorf("life %s: %w", s.name, err))
			}
		})
	}
	lives.Wait()
	return run, context.Cause(ctx)
}

// player plays one life.
type player struct {
	Place
	script
	seen     *observer
	programs programs
}

func (p *player) life(ctx context.Context) (Life, error) {
	limited, cancel := context.WithTimeout(ctx, lifeLimit)
	defer cancel()
	svc := p.spec
	svc.Namespace, svc.Name = p.Namespace, p.name
	_, err := p.Client.CoreV1().Services(p.Namespace).Create(limited, svc.Service(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, ""
	}), metav1.CreateOptions{})
	if err != nil {
		return Life{}, fmt.Errorf("make the Service: %w", err)
	}
	began := record.Now()
	if err := p.steps(limited, func(ctx context.Context) error { return p.play(ctx, p) }, p.calm); err != nil {
		return Life{}, err
	}
	for _, pod := range p.seen.pods(p.name) {
		if err := p.programs.read(pod, func(e Event) { p.seen.said(p.name, e) }); err != nil {
			return Life{}, err
		}
	}
	return Life{p.name, tidy(p.seen.close(p.name, began), p.parts)}, nil
}

// steps does one after the other.
func (p *player) steps(ctx context.Context, list ...func(context.Context) error) error {
	for _, step := range list {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a facet of the life's pods has taken a value so many times.
func (p *player) await(times int, facet, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, look, true, func(context.Context) (bool, error) {
			return p.seen.count(p.name, facet, value) >= times, nil
		})
		if err != nil {
			return fmt.Errorf("wait until %s was %q %d times: %w", facet, value, times, errors.Join(err, context.Cause(ctx)))
		}
		return nil
	}
}

// calm waits until nothing has happened for a while.
func (p *player) calm(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, look, true, func(context.Context) (bool, error) {
		return p.seen.idle(p.name) >= calm, nil
	})
	if err != nil {
		return fmt.Errorf("wait until nothing happens: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// makePod makes the pod of the workload by itself. A namespace that was just made
// has no service account yet; until then it is refused.
func (p *player) makePod(ctx context.Context) error {
	t := p.object(p.Namespace, p.Image).Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.name, Labels: t.Labels}, Spec: t.Spec}
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		_, err := p.Client.CoreV1().Pods(p.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("make the pod: %w", err)
	}
	return nil
}

func (p *player) makeDeployment(ctx context.Context) error {
	if _, err := p.Client.AppsV1().Deployments(p.Namespace).Create(ctx, p.object(p.Namespace, p.Image), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the Deployment: %w", err)
	}
	return nil
}

func (p *player) restart(ctx context.Context) error {
	patch := []byte(`{"spec":{"template":{"metadata":{"annotations":{"restarted":"once"}}}}}`)
	if _, err := p.Client.AppsV1().Deployments(p.Namespace).Patch(ctx, p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("restart the Deployment: %w", err)
	}
	return nil
}

// admit opens the readiness gate of the newest pod.
func (p *player) admit(ctx context.Context) error {
	names := p.seen.pods(p.name)
	pod := names[len(names)-1]
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True"}]}}`, workload.Gate)
	if _, err := p.Client.CoreV1().Pods(p.Namespace).Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("admit pod %s: %w", pod, err)
	}
	return nil
}

func (p *player) deletePod(grace *int64) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := p.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
			return fmt.Errorf("delete the pod: %w", err)
		}
		return nil
	}
}
