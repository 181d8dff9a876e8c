package mutant

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typeddiscoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	typednetworkingv1 "k8s.io/client-go/kubernetes/typed/networking/v1"
)

// brokenClient hands on what the API says, changed.
type brokenClient struct {
	kubernetes.Interface
	c *changes
}

func (b brokenClient) CoreV1() typedcorev1.CoreV1Interface {
	return brokenCore{b.Interface.CoreV1(), b.c}
}

func (b brokenClient) DiscoveryV1() typeddiscoveryv1.DiscoveryV1Interface {
	return brokenDiscovery{b.Interface.DiscoveryV1(), b.c}
}

func (b brokenClient) NetworkingV1() typednetworkingv1.NetworkingV1Interface {
	return brokenNetworking{b.Interface.NetworkingV1(), b.c}
}

type brokenCore struct {
	typedcorev1.CoreV1Interface
	c *changes
}

func (b brokenCore) Services(ns string) typedcorev1.ServiceInterface {
	return brokenServices{b.CoreV1Interface.Services(ns), b.c}
}

func (b brokenCore) Nodes() typedcorev1.NodeInterface {
	return brokenNodes{b.CoreV1Interface.Nodes(), b.c}
}

type brokenDiscovery struct {
	typeddiscoveryv1.DiscoveryV1Interface
	c *changes
}

func (b brokenDiscovery) EndpointSlices(ns string) typeddiscoveryv1.EndpointSliceInterface {
	return brokenSlices{b.DiscoveryV1Interface.EndpointSlices(ns), b.c}
}

type brokenNetworking struct {
	typednetworkingv1.NetworkingV1Interface
	c *changes
}

func (b brokenNetworking) ServiceCIDRs() typednetworkingv1.ServiceCIDRInterface {
	return brokenCIDRs{b.NetworkingV1Interface.ServiceCIDRs(), b.c}
}

type brokenServices struct {
	typedcorev1.ServiceInterface
	c *changes
}

func (b brokenServices) List(ctx context.Context, o metav1.ListOptions) (*corev1.ServiceList, error) {
	return list(ctx, b.c, o, b.ServiceInterface.List)
}

func (b brokenServices) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return observe(ctx, b.c, o, b.ServiceInterface.Watch)
}

type brokenSlices struct {
	typeddiscoveryv1.EndpointSliceInterface
	c *changes
}

func (b brokenSlices) List(ctx context.Context, o metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
	return list(ctx, b.c, o, b.EndpointSliceInterface.List)
}

func (b brokenSlices) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return observe(ctx, b.c, o, b.EndpointSliceInterface.Watch)
}

type brokenNodes struct {
	typedcorev1.NodeInterface
	c *changes
}

func (b brokenNodes) List(ctx context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
	return list(ctx, b.c, o, b.NodeInterface.List)
}

func (b brokenNodes) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return observe(ctx, b.c, o, b.NodeInterface.Watch)
}

type brokenCIDRs struct {
	typednetworkingv1.ServiceCIDRInterface
	c *changes
}

func (b brokenCIDRs) List(ctx context.Context, o metav1.ListOptions) (*networkingv1.ServiceCIDRList, error) {
	return list(ctx, b.c, o, b.ServiceCIDRInterface.List)
}

func (b brokenCIDRs) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return observe(ctx, b.c, o, b.ServiceCIDRInterface.Watch)
}

// list asks and hands on what was heard.
func list[L runtime.Object](ctx context.Context, c *changes, o metav1.ListOptions, ask func(context.Context, metav1.ListOptions) (L, error)) (L, error) {
	out, err := ask(ctx, c.asked(o))
	if err != nil {
		return out, err
	}
	items, err := meta.ExtractList(out)
	if err != nil {
		return out, err
	}
	var heard []runtime.Object
	for _, item := range items {
		if c.hear(watch.Added, item) {
			heard = append(heard, item)
		}
	}
	return out, meta.SetList(out, heard)
}

func observe(ctx context.Context, c *changes, o metav1.ListOptions, ask func(context.Context, metav1.ListOptions) (watch.Interface, error)) (watch.Interface, error) {
	w, err := ask(ctx, c.asked(o))
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if e.Type == watch.Bookmark || e.Type == watch.Error {
			return e, true
		}
		return e, c.hear(e.Type, e.Object)
	}), nil
}

func (c *changes) asked(o metav1.ListOptions) metav1.ListOptions {
	if c.asks != nil {
		c.asks(&o)
	}
	return o
}

// hear changes an object and tells whether it is heard of.
func (c *changes) hear(t watch.EventType, o runtime.Object) bool {
	if m, ok := o.(metav1.Object); ok && m.GetNamespace() != "" && !isTarget(m.GetNamespace()) {
		return true
	}
	if c.hears != nil && !c.hears(t, o) {
		return false
	}
	if c.object != nil {
		c.object(o)
	}
	return true
}
