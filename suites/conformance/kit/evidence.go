package kit

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/probeagent"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// evidence keeps what shows a failure: the attempts, the objects, of every node its
// rules and the connections it remembers to the target, the load balancer's
// configuration and state, and then, since it makes new connections, the packets of
// the same attempt; last what was said. What cannot be had is left out; the failure stands without it.
func (e *Env) evidence(s *Spec, c Client, t Target, res *probeagent.Results) {
	if e.cfg.Dir == "" {
		return
	}
	var attempts strings.Builder
	fmt.Fprintf(&attempts, "%s to %s\n", c.Name, t)
	for _, r := range res.Attempts {
		fmt.Fprintln(&attempts, r)
	}
	s.keep("attempts.txt", attempts.String())
	services := e.services(s)
	e.keepObjects(s, services)
	e.keepNodes(s, t)
	for _, o := range services {
		e.keepBalancer(s, o)
	}
	e.captured(s, c, t, e.doors(s, services))
	s.keep("notes.txt", strings.Join(s.said, "\n")+"\n")
}

// services are those of the behaviour that are there.
func (e *Env) services(s *Spec) []*corev1.Service {
	var out []*corev1.Service
	for n := range s.serial {
		o, err := e.client.CoreV1().Services(Namespace).Get(s.ctx, s.name(fmt.Sprintf("s%d", n+1)), metav1.GetOptions{})
		if err == nil {
			out = append(out, o)
		}
	}
	return out
}

func (e *Env) keepObjects(s *Spec, services []*corev1.Service) {
	var objects []string
	for _, o := range services {
		o = o.DeepCopy()
		o.ManagedFields = nil
		objects = append(objects, text(o))
		slices, err := e.client.DiscoveryV1().EndpointSlices(Namespace).List(s.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + o.Name})
		if err != nil {
			continue
		}
		for n := range slices.Items {
			slices.Items[n].ManagedFields = nil
			objects = append(objects, text(&slices.Items[n]))
		}
	}
	s.keep("objects.yaml", strings.Join(objects, "---\n"))
}

func (e *Env) keepNodes(s *Spec, t Target) {
	for _, n := range e.nodes {
		if n.NetNS == "" {
			continue
		}
		for name, argv := range map[string][]string{
			"nft":       {"nft", "list", "ruleset"},
			"conntrack": {"conntrack", "-L", "-f", map[bool]string{true: "ipv4", false: "ipv6"}[t.to.Addr().Is4()], "--orig-dst", t.to.Addr().String()},
		} {
			if out, err := e.stage.Cluster().Exec(s.ctx, n.Name, argv...); err == nil {
				s.keep(n.Name+"-"+name+".txt", out)
			}
		}
	}
}

// filed is a load balancer of which the files of each Service's HAProxy are within
// reach: its configuration and its sockets.
type filed interface {
	Dir(service types.UID) string
}

// balancerQuestions are asked at the stats socket (management.txt 9.3).
var balancerQuestions = []string{"show info", "show servers state", "show stat", "show sess"}

// keepBalancer keeps what the HAProxy of a Service is told and what it says, if there is one.
func (e *Env) keepBalancer(s *Spec, o *corev1.Service) {
	stage, ok := e.stage.(fronted)
	if !ok || o.Spec.Type != corev1.ServiceTypeLoadBalancer || o.Spec.LoadBalancerClass != nil {
		return
	}
	if lb, ok := stage.LB().(filed); ok {
		keepHAProxy(s.ctx, s, o.Name, lb.Dir(o.UID))
	}
}

func keepHAProxy(ctx context.Context, s *Spec, name, dir string) {
	cfg, err := os.ReadFile(filepath.Join(dir, haproxy.ConfigFile))
	if err != nil {
		s.Say("the load balancer's configuration was not kept: %v", err)
		return
	}
	s.keep(name+"-haproxy.cfg", string(cfg))
	client := haproxy.NewClient(dir)
	var state strings.Builder
	for _, question := range balancerQuestions {
		answer, err := client.Do(ctx, question)
		if err != nil {
			s.Say("the load balancer's state is not complete: %v", err)
			break
		}
		fmt.Fprintf(&state, "> %s\n%s\n", question, strings.TrimSpace(answer))
	}
	s.keep(name+"-haproxy-state.txt", state.String())
}

// doors are where load balancers reach the nodes: the Services' node ports.
func (e *Env) doors(s *Spec, services []*corev1.Service) []netip.AddrPort {
	var out []netip.AddrPort
	for _, o := range services {
		for _, p := range o.Spec.Ports {
			for _, n := range e.nodes {
				if a := n.Addr(s.Family); p.NodePort != 0 && a.IsValid() {
					out = append(out, netip.AddrPortFrom(a, uint16(p.NodePort)))
				}
			}
		}
	}
	return out
}

func text(o any) string {
	b, err := yaml.Marshal(o)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(b)
}

// keep writes a file of evidence.
func (s *Spec) keep(name, text string) {
	if s.env.cfg.Dir == "" {
		return
	}
	dir := filepath.Join(s.id, strings.ToLower(string(s.Family)))
	if err := os.MkdirAll(filepath.Join(s.env.cfg.Dir, dir), 0o755); err != nil {
		s.Say("evidence was not kept: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(s.env.cfg.Dir, dir, name), []byte(text), 0o644); err != nil {
		s.Say("evidence was not kept: %v", err)
		return
	}
	s.files = append(s.files, filepath.Join(dir, name))
}
