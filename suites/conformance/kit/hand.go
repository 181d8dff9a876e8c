package kit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/report/render"
)

// handService applies a Service without what the API gave it and this cluster may not have.
func handService(o *corev1.Service) func(*byHand) string {
	o = o.DeepCopy()
	return func(h *byHand) string {
		given := o.UID != "" // it is as the API has it, not as it was asked for
		out := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: o.Labels, Annotations: o.Annotations}, Spec: *o.Spec.DeepCopy()}
		if given && out.Spec.ClusterIP != corev1.ClusterIPNone {
			out.Spec.ClusterIP, out.Spec.ClusterIPs = "", nil
		}
		for i := range out.Spec.Ports {
			if given {
				out.Spec.Ports[i].NodePort = 0
			}
		}
		if given {
			out.Spec.HealthCheckNodePort = 0
		}
		if len(out.Spec.Selector) > 0 {
			for _, n := range h.spec.FirstNodes() {
				h.of(n.A.Client)
				h.of(n.B.Client)
			}
		}
		return h.apply(out)
	}
}

// handSlice applies a slice whose endpoints are the pods that stand for the probes.
func handSlice(o *discoveryv1.EndpointSlice) func(*byHand) string {
	o = o.DeepCopy()
	return func(h *byHand) string {
		out := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: o.Labels}, AddressType: o.AddressType, Ports: o.Ports}
		for _, e := range o.Endpoints {
			e = *e.DeepCopy()
			for i, text := range e.Addresses {
				if a, err := netip.ParseAddr(text); err == nil {
					e.Addresses[i] = h.address(a)
				}
			}
			if e.NodeName != nil {
				name := h.nodeName(*e.NodeName)
				e.NodeName = &name
			}
			if e.Hints != nil {
				for i, n := range e.Hints.ForNodes {
					e.Hints.ForNodes[i].Name = h.nodeName(n.Name)
				}
			}
			out.Endpoints = append(out.Endpoints, e)
		}
		return h.apply(out)
	}
}

// handStatus writes a Service's status.loadBalancer.
func handStatus(o *corev1.Service) func(*byHand) string {
	status := map[string]any{"status": map[string]any{"loadBalancer": o.Status.LoadBalancer.DeepCopy()}}
	return func(*byHand) string {
		text, err := yaml.Marshal(status)
		if err != nil {
			return "# its status: " + err.Error()
		}
		return fmt.Sprintf("kubectl patch -n \"$NS\" service %s --subresource=status --type=merge -p \"$(cat <<'END'\n%sEND\n)\"", o.Name, text)
	}
}

func handDelete(kind, name string) func(*byHand) string {
	return func(*byHand) string { return fmt.Sprintf("kubectl delete -n \"$NS\" %s %s", kind, name) }
}

// handDeleteService deletes a Service and its slices, which nobody else would.
func handDeleteService(name string) func(*byHand) string {
	return func(h *byHand) string {
		return handDelete("service", name)(h) + "\n" + handDelete("endpointslice", "-l "+discoveryv1.LabelServiceName+"="+name)(h)
	}
}

func handLabel(kind, name, key, value string) func(*byHand) string {
	return func(*byHand) string {
		return fmt.Sprintf("kubectl label -n \"$NS\" --overwrite %s %s %s=%s", kind, name, key, value)
	}
}

// handNode is a command of kubectl about a node, whose name comes after the first words. Nobody undoes it, so it is made
// where that is asked for.
func handNode(n *Node, verb string, rest ...string) func(*byHand) string {
	return func(h *byHand) string {
		words := append([]string{"change kubectl", verb, `"` + shellVariables(h.nodeName(n.Name)) + `"`}, rest...)
		return strings.Join(words, " ")
	}
}

func handSleep(d time.Duration) func(*byHand) string {
	return func(*byHand) string { return fmt.Sprintf("sleep %g", d.Seconds()) }
}

// handHost says how a host is made whose router is a node, in that node: kubectl cannot.
func handHost(n *Node, link string, gate, own netip.Prefix) func(*byHand) string {
	return func(h *byHand) string {
		lines := []string{
			"# as root on " + h.shown(n) + ", where that host is the network namespace " + link + ":",
			"ip netns add " + link, "ip link add " + link + " type veth peer name eth0 netns " + link,
			"ip addr add " + gate.String() + " dev " + link, "ip link set " + link + " up",
			"ip -n " + link + " addr add " + own.String() + " dev eth0", "ip -n " + link + " link set eth0 up",
			"ip -n " + link + " route add default via " + gate.Addr().String(),
		}
		return strings.Join(lines, "\n#     ")
	}
}

// labelled is a label as kubectl takes it: without a value it is taken away.
func labelled(key, value string) string {
	if value == "" {
		return key + "-"
	}
	return key + "=" + value
}

// serviceText is what a Service is, in a line.
func serviceText(o *corev1.Service) string {
	var ports []string
	for _, p := range o.Spec.Ports {
		text := render.Joined(" ", p.Name, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		if p.NodePort != 0 {
			text += fmt.Sprintf(" (node port %d)", p.NodePort)
		}
		ports = append(ports, text)
	}
	internal := ""
	if p := o.Spec.InternalTrafficPolicy; p != nil && *p != corev1.ServiceInternalTrafficPolicyCluster {
		internal = string(*p)
	}
	health := ""
	if o.Spec.HealthCheckNodePort != 0 {
		health = fmt.Sprint(o.Spec.HealthCheckNodePort)
	}
	affinity := ""
	if o.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		affinity = "ClientIP"
		if c := o.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			affinity += fmt.Sprintf(" for %d s", *c.ClientIP.TimeoutSeconds)
		}
	}
	distribution := ""
	if o.Spec.TrafficDistribution != nil {
		distribution = *o.Spec.TrafficDistribution
	}
	return render.Joined(", ", string(o.Spec.Type), strings.Join(o.Spec.ClusterIPs, " and "), render.Prefixed("ports ", strings.Join(ports, ", ")),
		render.Prefixed("externalIPs ", strings.Join(o.Spec.ExternalIPs, ", ")), render.Prefixed("externalTrafficPolicy ", string(o.Spec.ExternalTrafficPolicy)),
		render.Prefixed("internalTrafficPolicy ", internal), render.Prefixed("healthCheckNodePort ", health), render.Prefixed("affinity ", affinity),
		render.Prefixed("trafficDistribution ", distribution), render.Prefixed("loadBalancerSourceRanges ", strings.Join(o.Spec.LoadBalancerSourceRanges, ", ")))
}

// ingressText is a Service's status.loadBalancer in a line.
func ingressText(o *corev1.Service) string {
	var out []string
	for _, in := range o.Status.LoadBalancer.Ingress {
		mode := ""
		if in.IPMode != nil {
			mode = "ipMode " + string(*in.IPMode)
		}
		out = append(out, render.Joined(" ", in.IP, in.Hostname, render.Parens(mode)))
	}
	if len(out) == 0 {
		return "no ingress"
	}
	return strings.Join(out, ", ")
}

// endpointsTold are named of a slice; objects.yaml has all.
const endpointsTold = 12

// sliceText is what a slice has, in a line.
func sliceText(o *discoveryv1.EndpointSlice) string {
	var ports, out []string
	for _, p := range o.Ports {
		if p.Port != nil && p.Protocol != nil {
			ports = append(ports, fmt.Sprintf("%d/%s", *p.Port, *p.Protocol))
		}
	}
	for i, e := range o.Endpoints {
		if i == endpointsTold {
			out = append(out, fmt.Sprintf("and %d more", len(o.Endpoints)-i))
			break
		}
		out = append(out, endpointText(e))
	}
	if len(out) == 0 {
		out = []string{"no endpoints"}
	}
	return strings.Join(out, ", ") + render.Prefixed("; ports ", strings.Join(slices.Compact(ports), ", "))
}

func endpointText(e discoveryv1.Endpoint) string {
	node := ""
	if e.NodeName != nil {
		node = "on " + *e.NodeName
	}
	state := ""
	for _, c := range []struct {
		name string
		is   *bool
	}{{"ready", e.Conditions.Ready}, {"serving", e.Conditions.Serving}, {"terminating", e.Conditions.Terminating}} {
		if ready := e.Conditions.Ready != nil && *e.Conditions.Ready; c.name == "serving" && ready { // it goes without saying
			continue
		}
		if c.is != nil && (*c.is || c.name == "ready") {
			state = render.Joined(" ", state, map[bool]string{true: "", false: "not "}[*c.is]+c.name)
		}
	}
	hints := ""
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			hints = render.Joined(" ", hints, "zone "+z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			hints = render.Joined(" ", hints, "node "+n.Name)
		}
	}
	return render.Joined(" ", strings.Join(e.Addresses, " "), render.Parens(render.Joined(", ", node, state, render.Prefixed("for ", hints))))
}
