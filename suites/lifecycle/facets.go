package lifecycle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Facets of a pod. Those of its conditions are facetCondition and their type.
const (
	facetObject    = "object" // made, deleting, gone
	facetPhase     = "phase"
	facetAddress   = "address"
	facetContainer = "container" // its state; container.ready and so on beside it
	facetCondition = "condition."
	facetEndpoint  = "endpoint" // in the slice
	facetProgram   = "program"  // what the program says of itself
)

// facet is one of the things that can change of an object, with its value now.
type facet struct{ name, value string }

// podFacets are those of a Pod, in the order in which they are told.
func podFacets(p *corev1.Pod) []facet {
	out := []facet{{facetObject, "made"}, {facetPhase, string(p.Status.Phase)}}
	if p.DeletionTimestamp != nil {
		out[0].value = fmt.Sprintf("deleting, grace %d", *p.DeletionGracePeriodSeconds)
	}
	for _, c := range p.Status.Conditions {
		out = append(out, facet{facetCondition + string(c.Type), strings.TrimSpace(string(c.Status) + " " + c.Reason)})
	}
	if len(p.Status.PodIPs) > 0 {
		out = append(out, facet{facetAddress, "given"})
	}
	for _, c := range p.Status.ContainerStatuses {
		out = append(out,
			facet{facetContainer, state(c.State)},
			facet{facetContainer + ".ready", fmt.Sprint(c.Ready)},
			facet{facetContainer + ".started", fmt.Sprint(c.Started != nil && *c.Started)},
			facet{facetContainer + ".restarts", fmt.Sprint(c.RestartCount)})
		if last := state(c.LastTerminationState); last != "" {
			out = append(out, facet{facetContainer + ".last", last})
		}
	}
	return out
}

func state(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Waiting != nil:
		return "waiting " + s.Waiting.Reason
	case s.Terminated != nil:
		return fmt.Sprintf("terminated %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
	}
	return ""
}

// endpointState lists the conditions that hold; an unset one takes the default of
// the API: ready and serving true, terminating false.
func endpointState(c discoveryv1.EndpointConditions) string {
	var out []string
	for _, x := range []struct {
		name   string
		value  *bool
		absent bool
	}{{"ready", c.Ready, true}, {"serving", c.Serving, c.Ready == nil || *c.Ready}, {"terminating", c.Terminating, false}} {
		if x.value == nil && x.absent || x.value != nil && *x.value {
			out = append(out, x.name)
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, " ")
}
