package kit

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeleteAlone deletes the Service; its slices stay.
func (v *Service) DeleteAlone() {
	s := v.spec
	err := s.env.client.CoreV1().Services(s.env.namespace).Delete(s.ctx, v.obj.Name, metav1.DeleteOptions{})
	s.must(err, "delete Service %s", v.obj.Name)
	v.deleted = true
	s.did(handDelete("service", v.obj.Name), "deleted Service %s; its slices stay", v.obj.Name)
	s.changed()
}

// Adopt makes one of another Service's slices the Service's own, by its label alone.
func (v *Service) Adopt(from *Service, name string) {
	s, slices := v.spec, v.spec.env.client.DiscoveryV1().EndpointSlices(v.spec.env.namespace)
	o, err := slices.Get(s.ctx, from.obj.Name+"-"+name, metav1.GetOptions{})
	s.must(err, "read EndpointSlice %s-%s", from.obj.Name, name)
	o.Labels[discoveryv1.LabelServiceName] = v.obj.Name
	_, err = slices.Update(s.ctx, o, metav1.UpdateOptions{})
	s.must(err, "move EndpointSlice %s to Service %s", o.Name, v.obj.Name)
	v.wrote(o.Name, from.slices[name])
	from.wrote(name, nil)
	s.did(handLabel("endpointslice", o.Name, discoveryv1.LabelServiceName, v.obj.Name), "made EndpointSlice %s one of Service %s, by its label", o.Name, v.obj.Name)
	s.changed()
}
