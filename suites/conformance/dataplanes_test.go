package conformance

import (
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

//go:embed dataplanes.yaml
var dataplanesFile []byte

// declared is what is known of a dataplane beforehand.
type declared struct {
	Project     string                 `json:"project"`
	URL         string                 `json:"url,omitempty"`
	Unsupported map[kit.Feature]string `json:"unsupported,omitempty"` // and why
	Flush       []string               `json:"flush,omitempty"`       // commands that remove its rules from a node
}

// declaration finds what is declared of a dataplane; of one that nobody knows, nothing is.
func declaration(name string) (declared, error) {
	var all map[string]declared
	if err := yaml.UnmarshalStrict(dataplanesFile, &all); err != nil {
		return declared{}, fmt.Errorf("read dataplanes.yaml: %w", err)
	}
	name, _, _ = strings.Cut(name, ":fallback")
	return all[name], nil
}

// without adds a feature that the dataplane cannot have here.
func (d declared) without(f kit.Feature, why string) declared {
	all := map[kit.Feature]string{f: why}
	for other, reason := range d.Unsupported {
		all[other] = reason
	}
	d.Unsupported = all
	return d
}

// flush splits the commands into words.
func (d declared) flush() [][]string {
	var out [][]string
	for _, line := range d.Flush {
		out = append(out, strings.Fields(line))
	}
	return out
}
