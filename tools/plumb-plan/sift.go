package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

// versions are the API versions in which a kind may be written.
func versions() map[string][]string {
	return map[string][]string{
		"Service": {"v1"}, "Node": {"v1"}, "EndpointSlice": {"discovery.k8s.io/v1"},
		"ServiceCIDR": {"networking.k8s.io/v1", "networking.k8s.io/v1beta1"},
	}
}

// sift leaves out what no dataplane reads, counts it, and refuses values that no API server takes.
func sift(docs []document) (kept []document, said []string, err error) {
	left := map[string]int{}
	for i, d := range docs {
		known, ok := versions()[d.Kind]
		switch {
		case !ok && d.Kind != "": // without any, the text is not of an object
			left[d.Kind]++
			continue
		case ok && d.APIVersion != "" && !slices.Contains(known, d.APIVersion):
			return nil, nil, fmt.Errorf("document %d: %s of apiVersion %q: want %s", i+1, d.Kind, d.APIVersion, strings.Join(known, " or "))
		}
		if d.Kind == "Service" {
			line, err := service(d)
			if err != nil {
				return nil, nil, fmt.Errorf("document %d: %w", i+1, err)
			}
			if line != "" {
				said = append(said, line)
			}
		}
		kept = append(kept, d)
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(left)) {
		parts = append(parts, fmt.Sprintf("%d %s", left[kind], kind))
	}
	if len(kept) == 0 && len(left) > 0 {
		return nil, nil, fmt.Errorf("there are %s in it, and nothing to plan: give Services and their EndpointSlices, such as kubectl get services,endpointslices,nodes -A -o yaml prints them", strings.Join(parts, ", "))
	}
	if len(parts) > 0 {
		said = append([]string{"left out: " + strings.Join(parts, ", ")}, said...)
	}
	return kept, said, nil
}

// service checks values that are one of several, and says why nothing is planned for a Service that
// no API server has given an address.
func service(d document) (said string, err error) {
	var s corev1.Service
	if yaml.Unmarshal(d.text, &s) != nil {
		return "", nil // whoever decodes all of it says why
	}
	name := "service " + d.Metadata.Namespace + "/" + d.Metadata.Name
	for _, v := range []struct {
		field, value string
		known        []string
	}{
		{"type", string(s.Spec.Type), []string{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}},
		{"externalTrafficPolicy", string(s.Spec.ExternalTrafficPolicy), []string{"Cluster", "Local"}},
		{"internalTrafficPolicy", deref(s.Spec.InternalTrafficPolicy), []string{"Cluster", "Local"}},
		{"sessionAffinity", string(s.Spec.SessionAffinity), []string{"None", "ClientIP"}},
	} {
		if v.value != "" && !slices.Contains(v.known, v.value) {
			return "", fmt.Errorf("%s: %s %q: want %s", name, v.field, v.value, strings.Join(v.known, " or "))
		}
	}
	for _, p := range s.Spec.Ports {
		if p.Protocol != "" && !slices.Contains([]corev1.Protocol{"TCP", "UDP", "SCTP"}, p.Protocol) {
			return "", fmt.Errorf("%s: port %d: protocol %q: want TCP, UDP or SCTP", name, p.Port, p.Protocol)
		}
	}
	if s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) == 0 && s.Spec.Type != corev1.ServiceTypeExternalName && len(s.Spec.ExternalIPs) == 0 {
		said = name + " has no clusterIP, which an API server gives: take it with kubectl get -o yaml, or write one into it"
	}
	return said, nil
}

func deref[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

// placed refuses the name of a node that nothing in the file knows.
func placed(docs []document, node string) error {
	named := map[string]bool{}
	for _, d := range docs {
		if d.Kind == "Node" {
			return nil // among them it is looked for by name
		}
		if d.Kind != "EndpointSlice" {
			continue
		}
		var s discoveryv1.EndpointSlice
		if yaml.Unmarshal(d.text, &s) != nil {
			continue
		}
		for _, e := range s.Endpoints {
			if e.NodeName != nil {
				named[*e.NodeName] = true
			}
		}
	}
	if node == "" || len(named) == 0 || named[node] {
		return nil
	}
	return fmt.Errorf("--node %q: no endpoint is on it, and no Node of that name is in it; the slices name: %s", node, strings.Join(slices.Sorted(maps.Keys(named)), ", "))
}
