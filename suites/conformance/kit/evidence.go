package kit

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// evidence keeps what shows a failure: the last attempts, the steps to make by hand, the objects, of every node its
// rules and the connections it remembers to the target and the endpoints (those of the
// control among them), the load balancer's configuration and state, and then, since it
// makes new connections, the packets of the same attempt; last what was said. What
// cannot be had is left out; the failure stands without it.
func (e *Env) evidence(s *Spec, says string) {
	if e.cfg.Dir == "" {
		return
	}
	if s.last.res != nil {
		var attempts strings.Builder
		fmt.Fprintf(&attempts, "%s to %s\n", s.last.client.at(), s.last.to)
		for _, r := range s.last.res.Attempts {
			fmt.Fprintln(&attempts, r)
		}
		s.keep("attempts.txt", attempts.String())
	}
	if script, err := s.script(says, s.steps); err != nil {
		s.Say("%v", err)
	} else {
		s.keep("by-hand.sh", script)
	}
	services := e.services(s)
	written := e.slices(s, services)
	s.keepObjects(services, written)
	e.keepNodes(s, written)
	for _, o := range services {
		e.keepBalancer(s, o)
	}
	if s.last.client.probe != nil {
		e.captured(s, s.last, e.doors(s, services))
	}
	s.keep("notes.txt", strings.Join(s.said, "\n")+"\n")
	slices.SortStableFunc(s.files, func(a, b string) int { return whole(a) - whole(b) })
}

// whole tells (1) files that are about everything, and so are not the first to be read.
func whole(file string) int {
	if aListing.MatchString(file) {
		return 1
	}
	return 0
}

var aListing = regexp.MustCompile(`-(nft|ip6?tables|conntrack)\.txt$|\.pcap$`) // const

// services are those of the behaviour that are there.
func (e *Env) services(s *Spec) []*corev1.Service {
	var out []*corev1.Service
	for n := range s.serial {
		o, err := e.client.CoreV1().Services(e.namespace).Get(s.ctx, s.name(fmt.Sprintf("s%d", n+1)), metav1.GetOptions{})
		if err == nil {
			out = append(out, o)
		}
	}
	return out
}

// slices are those of Services.
func (e *Env) slices(s *Spec, services []*corev1.Service) []discoveryv1.EndpointSlice {
	var out []discoveryv1.EndpointSlice
	for _, o := range services {
		list, err := e.client.DiscoveryV1().EndpointSlices(e.namespace).List(s.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + o.Name})
		if err == nil {
			out = append(out, list.Items...)
		}
	}
	return out
}

func (s *Spec) keepObjects(services []*corev1.Service, written []discoveryv1.EndpointSlice) {
	var objects []string
	for _, o := range services {
		o = o.DeepCopy()
		o.ManagedFields = nil
		objects = append(objects, text(o))
	}
	for _, o := range written {
		o.ManagedFields = nil
		objects = append(objects, text(o))
	}
	s.keep("objects.yaml", strings.Join(objects, "---\n"))
}

func (e *Env) keepNodes(s *Spec, written []discoveryv1.EndpointSlice) {
	for _, n := range e.involved(s.last) {
		if n.NetNS == "" {
			continue
		}
		ask := func(argv ...string) string {
			out, err := e.stage.Cluster().Exec(s.ctx, n.Name, argv...)
			if err != nil {
				return ""
			}
			return out
		}
		s.keepSome(n.Name+"-nft.txt", ask("nft", "list", "ruleset"))
		iptables := disrupt.InFamily([]string{"iptables"}, s.Family)[0]
		rules := ask(iptables + "-legacy-save")
		if !hasRules(rules) { // the others are also in nft's ruleset, but not in their own words
			rules = ask(iptables + "-save")
		}
		if hasRules(rules) {
			s.keep(n.Name+"-"+iptables+".txt", rules)
		}
		var connections strings.Builder
		for _, filter := range s.last.connections(written) {
			if out := ask(append([]string{"conntrack", "-L"}, filter...)...); out != "" {
				fmt.Fprintf(&connections, "# %s\n%s\n", strings.Join(filter, " "), strings.TrimSpace(out))
			}
		}
		s.keepSome(n.Name+"-conntrack.txt", bounded(connections.String(), keepFlows))
	}
}

// hasRules tells what iptables-save prints of a node with rules from that of one whose
// chains are empty.
func hasRules(saved string) bool {
	return strings.HasPrefix(saved, "-A ") || strings.Contains(saved, "\n-A ")
}

// connections are what conntrack(8) is asked about a trial: those to its target, whatever
// became of them, and those that endpoints answer, whatever they were meant for.
func (t trial) connections(written []discoveryv1.EndpointSlice) [][]string {
	if t.client.probe == nil {
		return nil
	}
	base := []string{"-f", map[corev1.IPFamily]string{corev1.IPv4Protocol: "ipv4", corev1.IPv6Protocol: "ipv6"}[t.to.family()], "-p", string(t.to.network)}
	about := func(option ...string) []string { return append(slices.Clone(base), option...) }
	out := [][]string{about("--orig-dst", t.to.to.Addr().String(), "--orig-port-dst", fmt.Sprint(t.to.to.Port()))}
	seen := map[string]bool{}
	for _, o := range written {
		for _, endpoint := range o.Endpoints {
			for _, a := range endpoint.Addresses {
				if string(o.AddressType) == string(t.to.family()) && !seen[a] {
					seen[a] = true
					out = append(out, about("--reply-src", a))
				}
			}
		}
	}
	return out
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

// keepSome is keep, of what is not empty.
func (s *Spec) keepSome(name, text string) {
	if text != "" {
		s.keep(name, text)
	}
}

// keepBytes are kept of one file of evidence, and keepFlows of the flows of a node: those to endpoints
// are of other behaviours too, which run beside.
const (
	keepBytes = 512 << 10
	keepFlows = 64 << 10
)

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
	if err := os.WriteFile(filepath.Join(s.env.cfg.Dir, dir, name), []byte(bounded(text, keepBytes)), 0o644); err != nil {
		s.Say("evidence was not kept: %v", err)
		return
	}
	s.files = append(s.files, filepath.Join(dir, name))
}
