package conformance

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

//go:embed dataplanes.yaml
var dataplanesFile []byte

// declared is what is known of a dataplane beforehand.
type declared struct {
	Project     string                 `json:"project"`
	URL         string                 `json:"url,omitempty"`
	Unsupported map[kit.Feature]string `json:"unsupported,omitempty"` // and why
	Flush       []string               `json:"flush,omitempty"`       // commands that remove its rules from a node
	Differs     map[string]differs     `json:"differs,omitempty"`     // by behaviour
}

// differs is a behaviour that the dataplane is known not to have.
type differs struct {
	Why    string   `json:"why"`
	Source []string `json:"source"`
}

// declaration finds what is declared of a dataplane; of one that nobody knows, nothing is.
func declaration(name string) (declared, error) {
	all, err := declarations()
	name, _, _ = strings.Cut(name, ":fallback")
	return all[name], err
}

func declarations() (map[string]declared, error) {
	var all map[string]declared
	if err := yaml.UnmarshalStrict(dataplanesFile, &all); err != nil {
		return nil, fmt.Errorf("read dataplanes.yaml: %w", err)
	}
	return all, nil
}

// report is one that has what is declared, in order, and nothing else yet.
func (d declared) report() conformance.Report {
	r := conformance.Report{Implementation: conformance.Implementation{Project: d.Project, URL: d.URL}}
	for _, f := range slices.Sorted(maps.Keys(d.Unsupported)) {
		r.Features = append(r.Features, conformance.Feature{Name: string(f), State: conformance.FeatureUnsupported, Reason: d.Unsupported[f]})
	}
	for _, id := range slices.Sorted(maps.Keys(d.Differs)) {
		r.Documented = append(r.Documented, conformance.Documented{Test: id, Why: d.Differs[id].Why, Source: d.Differs[id].Source})
	}
	return r
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
