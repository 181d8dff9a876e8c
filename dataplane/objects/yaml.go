package objects

import (
	"bytes"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// Decode reads Services, EndpointSlices, ServiceCIDRs and one Node from a stream of YAML
// documents, strictly: an unknown field is an error. What a valid object has that
// cannot be used comes as an error that wraps Unusable, beside a snapshot of all
// the rest. It is for tests and tools.
func Decode(text []byte) (*Snapshot, error) {
	snap := &Snapshot{}
	var unusable []error
	for i, doc := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		c, err := decodeOne(doc)
		var u *Unusable
		switch {
		case errors.As(err, &u):
			unusable = append(unusable, fmt.Errorf("document %d: %w", i+1, err))
		case err != nil:
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		snap.Apply(c)
	}
	return snap, errors.Join(unusable...)
}

func decodeOne(doc []byte) (Change, error) {
	var meta struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		return Change{}, err
	}
	switch meta.Kind {
	case "Service":
		var in corev1.Service
		if err := yaml.UnmarshalStrict(doc, &in); err != nil {
			return Change{}, err
		}
		out, err := FromService(&in)
		return Change{Service: &out}, err
	case "EndpointSlice":
		var in discoveryv1.EndpointSlice
		if err := yaml.UnmarshalStrict(doc, &in); err != nil {
			return Change{}, err
		}
		out, ok, err := FromEndpointSlice(&in)
		if !ok {
			return Change{}, err
		}
		return Change{Slice: &out}, err
	case "Node":
		var in corev1.Node
		if err := yaml.UnmarshalStrict(doc, &in); err != nil {
			return Change{}, err
		}
		out, err := FromNode(&in)
		return Change{Node: &out}, err
	case "ServiceCIDR":
		var in networkingv1.ServiceCIDR
		if err := yaml.UnmarshalStrict(doc, &in); err != nil {
			return Change{}, err
		}
		out, err := FromServiceCIDR(&in)
		return Change{ServiceCIDR: &out}, err
	}
	return Change{}, fmt.Errorf("unknown kind %q", meta.Kind)
}
