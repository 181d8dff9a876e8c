package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/fixtures/probeagent"
)

// evidence keeps what shows a failure: the attempts, the objects, and of every
// node its rules and the connections it remembers to the target. What cannot be
// had is left out; the failure stands without it.
func (e *Env) evidence(s *Spec, c Client, t Target, res *probeagent.Results) {
	var attempts strings.Builder
	fmt.Fprintf(&attempts, "%s to %s\n", c.Name, t)
	for _, r := range res.Attempts {
		fmt.Fprintln(&attempts, r)
	}
	s.keep("attempts.txt", attempts.String())
	var objects []string
	services, err := e.client.CoreV1().Services(Namespace).List(s.ctx, metav1.ListOptions{})
	for i := range services.Items {
		if o := &services.Items[i]; err == nil && strings.HasPrefix(o.Name, s.id+"-") {
			o.ManagedFields = nil
			objects = append(objects, text(o))
			slices, err := e.client.DiscoveryV1().EndpointSlices(Namespace).List(s.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + o.Name})
			for n := range slices.Items {
				if err == nil {
					slices.Items[n].ManagedFields = nil
					objects = append(objects, text(&slices.Items[n]))
				}
			}
		}
	}
	s.keep("objects.yaml", strings.Join(objects, "---\n"))
	if e.nodes[0].NetNS == "" {
		return
	}
	for _, n := range e.nodes {
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

func text(o any) string {
	b, err := yaml.Marshal(o)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(b)
}

// keep writes a file of evidence.
func (s *Spec) keep(name, text string) {
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
