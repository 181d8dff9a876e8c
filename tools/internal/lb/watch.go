package lb

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cloud-provider/service/helpers"
)

// watch is what the service controller sees of the cluster. That controller knows neither
// classes of load balancers nor nodes whose address changes: here the objects are put so
// that it does what is meant. It writes what it changes of an object and nothing else
// (helpers.PatchService), so nothing of this reaches the API.
//
// known are the Services that have a load balancer. A transform may be called with what it
// returned before.
func watch(kube kubernetes.Interface, namespace, class string, known []types.UID) (informers.SharedInformerFactory, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace))
	core := factory.Core().V1()
	if err := core.Nodes().Informer().SetTransform(withAddresses); err != nil {
		return nil, fmt.Errorf("set up the watch of Nodes: %w", err)
	}
	if class == "" {
		return factory, nil
	}
	if err := core.Services().Informer().SetTransform(ofClass(class, known...)); err != nil {
		return nil, fmt.Errorf("set up the watch of Services: %w", err)
	}
	return factory, nil
}

// addressesMark separates them from the providerID.
const addressesMark = " at "

// withAddresses adds a Node's addresses, in their order (the first of a family counts), to its
// providerID: by that the service controller
// tells whether a node is another (nodesSufficientlyEqual), and then load balancers are
// brought to the nodes as they are.
func withAddresses(obj any) (any, error) {
	node, ok := obj.(*v1.Node)
	if !ok {
		return obj, nil
	}
	id, _, _ := strings.Cut(node.Spec.ProviderID, addressesMark)
	var addrs []string
	for _, a := range node.Status.Addresses {
		if a.Type == v1.NodeInternalIP {
			addrs = append(addrs, a.Address)
		}
	}
	node.Spec.ProviderID = id + addressesMark + strings.Join(addrs, ",")
	return node, nil
}

// seenKey is an annotation that only this process sees: a Service that ofClass has dealt with
// has it, with a value that nobody can know.
const seenKey = "io.plumbline.class-seen"

// ofClass turns Services of class (spec.loadBalancerClass, KEP-1959) into those that the
// service controller serves, which are those without one, and hides all others: their
// finalizer is for their own load balancers' controller to take off. A Service that was of
// class, and becomes of another type, has lost it; it is known by its UID, until it is of
// another class.
func ofClass(class string, known ...types.UID) func(any) (any, error) {
	var mine sync.Map // of types.UID
	for _, uid := range known {
		mine.Store(uid, true)
	}
	seen := rand.Text()
	return func(obj any) (any, error) {
		svc, ok := obj.(*v1.Service)
		if !ok || svc.Annotations[seenKey] == seen {
			return obj, nil
		}
		if svc.Annotations == nil {
			svc.Annotations = map[string]string{}
		}
		svc.Annotations[seenKey] = seen
		has := svc.Spec.LoadBalancerClass
		_, was := mine.Load(svc.UID)
		switch {
		case has != nil && *has == class:
			mine.Store(svc.UID, true)
			svc.Spec.LoadBalancerClass = nil
		case was && svc.Spec.Type != v1.ServiceTypeLoadBalancer: // to be cleaned up
		default:
			if svc.Spec.Type == v1.ServiceTypeLoadBalancer {
				mine.Delete(svc.UID)
			}
			svc.Spec.Type, svc.Spec.LoadBalancerClass = v1.ServiceTypeClusterIP, nil
			svc.Finalizers = slices.DeleteFunc(svc.Finalizers, func(f string) bool { return f == helpers.LoadBalancerCleanupFinalizer })
		}
		return svc, nil
	}
}
