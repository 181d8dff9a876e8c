package lb

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/service/helpers"
)

func TestWanted(t *testing.T) {
	class := "example.com/other"
	var all []*v1.Service
	for _, c := range []struct {
		name   string
		mutate func(*v1.Service)
	}{
		{"ours", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeLoadBalancer }},
		{"other class", func(s *v1.Service) { s.Spec.Type, s.Spec.LoadBalancerClass = v1.ServiceTypeLoadBalancer, &class }},
		{"no load balancer", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeNodePort }},
		{"to clean up", func(s *v1.Service) { s.Finalizers = []string{helpers.LoadBalancerCleanupFinalizer} }},
	} {
		svc := &v1.Service{}
		svc.Name = c.name
		c.mutate(svc)
		all = append(all, svc)
	}
	var got []string
	for _, svc := range wanted(all) {
		got = append(got, svc.Name)
	}
	if want := []string{"ours", "to clean up"}; !slices.Equal(got, want) {
		t.Errorf("wanted %q, want %q", got, want)
	}
}
